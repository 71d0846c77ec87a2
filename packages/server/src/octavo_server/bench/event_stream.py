"""Server-sent events, split from bytes that arrive in pieces of any size.

The format is that of the HTML standard, section "Server-sent events"; only `data` fields are kept.
"""


class EventSplitter:
    """Gives the data of every event that is complete; what is not waits for the next piece."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_return = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Data of the events that a piece completes; lines of one event are joined with a newline."""
        if not self._rest and not self._data and not self._after_return and b"\r" not in piece and piece.endswith(b"\n\n"):
            whole = piece[:-2].split(b"\n\n")
            if all(event.startswith(b"data: ") and b"\n" not in event for event in whole):
                return [event[6:] for event in whole]
        return self._feed_lines(self._with_newlines(piece))

    def _with_newlines(self, piece: bytes) -> bytes:
        """Line ends of any kind become newlines, also those that two pieces share."""
        if self._after_return and piece:
            piece = piece.removeprefix(b"\n")
            self._after_return = False
        if b"\r" in piece:
            self._after_return = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return piece

    def _feed_lines(self, piece: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
