"""One streamed answer while it arrives."""

import msgspec

from octavo_server.bench.chunks import DONE, Chunk, Usage, decode_chunk, one_line
from octavo_server.bench.event_stream import EventSplitter
from octavo_server.bench.record import RequestError


class StreamedAnswer:
    """Reads the events of one stream and notes when output came.

    Attributes:
        first: moment of the first event with output (or of the end, where nothing came before), None before it.
        last: moment of the last event with output, or of the end of the answer, None before the first.
        gaps: seconds between events with output; 0 for those that one piece brought.
        num_events: events with output.
        usage: as the server sent it.
        failure: what makes the answer worthless, whatever else comes.
        is_complete: a finish_reason or [DONE] came.
    """

    def __init__(self) -> None:
        self.first: float | None = None
        self.last: float | None = None
        self.gaps: list[float] = []
        self.num_events = 0
        self.usage: Usage | None = None
        self.failure: RequestError | None = None
        self.is_complete = False
        self._splitter = EventSplitter()
        self._last_output = 0.0

    def feed(self, piece: bytes, now: float) -> None:
        """Take what arrived at a moment."""
        for data in self._splitter.feed(piece):
            if data == DONE:
                self.is_complete = True
            elif self.failure is None:
                try:
                    self._take(decode_chunk(data), now)
                except msgspec.DecodeError as error:
                    self.failure = RequestError("malformed event", one_line(f"{error}: {data[:100]!r}"))

    def _take(self, chunk: Chunk, now: float) -> None:
        if chunk.usage is not None:
            self.usage = chunk.usage
        failure = chunk.failure
        if failure is not None:
            self.failure = RequestError("stream error", failure)
        for choice in chunk.choices or ():
            is_end = choice.finish_reason is not None
            if choice.brings_output:
                self._note_output(now)
            elif not is_end:
                continue
            self.first = now if self.first is None else self.first
            self.last = now
            self.is_complete = self.is_complete or is_end

    def _note_output(self, now: float) -> None:
        if self.num_events:
            self.gaps.append(now - self._last_output)
        self.num_events += 1
        self._last_output = now
