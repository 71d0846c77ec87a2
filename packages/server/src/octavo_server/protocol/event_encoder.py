"""From tokens to the bytes of server-sent events. This runs once a token."""

import msgspec

from octavo.output.token_delta import TokenDelta
from octavo_server.protocol.answer_writer import AnswerWriter
from octavo_server.protocol.usage import Usage

_PLACEHOLDER = "\x00text\x00"
_encode = msgspec.json.Encoder().encode


class EventEncoder:
    """Encodes the chunks of one stream. What is the same in all chunks of a choice is encoded once.

    Args:
        writer: of the answer.
        n: choices of each prompt.
        num_prompt_tokens: of all prompts.
        usage_in_each: every chunk says the usage so far.
        usage_at_end: a later chunk will say it, which others show as null.
    """

    def __init__(self, writer: AnswerWriter, *, n: int, num_prompt_tokens: int, usage_in_each: bool, usage_at_end: bool) -> None:
        self._writer = writer
        self._n = n
        self._num_prompt_tokens = num_prompt_tokens
        self._usage_in_each = usage_in_each
        self._usage_at_end = usage_at_end
        self._num_output_tokens = 0
        self._frames: dict[int, tuple[bytes, bytes] | None] = {}

    def events(self, place: int, deltas: list[TokenDelta], num_cached_tokens: int) -> bytes:
        """One event a token.

        Args:
            place: of the prompt.
            deltas: what it gained; none of them failed.
            num_cached_tokens: of all prompts, as far as is known.
        """
        frames, first = self._frames, place * self._n
        parts: list[bytes] = []
        for delta in deltas:
            frame = frames.get(first + delta.index)
            if frame is not None and delta.finish_reason is None:
                parts += (frame[0], _encode(delta.text), frame[1])
            else:
                parts.append(self._event(place, delta, num_cached_tokens))
        return b"".join(parts)

    def closing_events(self, usage: Usage) -> bytes:
        """The event that says the usage behind all others; nothing where nobody asked for it."""
        return _framed(_encode(self._writer.usage_chunk(usage))) if self._usage_at_end else b""

    def _event(self, place: int, delta: TokenDelta, num_cached_tokens: int) -> bytes:
        self._num_output_tokens += delta.token_id is not None
        chunk = self._writer.chunk(place, delta)
        if self._usage_in_each:
            chunk.usage = Usage.of(self._num_prompt_tokens, self._num_output_tokens, num_cached_tokens)
        elif self._usage_at_end:
            chunk.usage = None
        index = place * self._n + delta.index
        if index not in self._frames:
            self._frames[index] = self._frame(index)
        return _framed(_encode(chunk))

    def _frame(self, index: int) -> tuple[bytes, bytes] | None:
        """What stands before and behind the text of a token that is neither the first nor the last of a choice."""
        if self._usage_in_each:
            return None
        chunk = self._writer.plain_chunk(index, _PLACEHOLDER)
        if chunk is None:
            return None
        if self._usage_at_end:
            chunk.usage = None
        # The text stands behind everything that a client may have chosen.
        before, _, behind = _framed(_encode(chunk)).rpartition(_encode(_PLACEHOLDER))
        return before, behind


def _framed(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
