import json
from typing import Any

import pytest

from octavo.output.token_delta import TokenDelta
from octavo.types import FinishReason
from octavo_server.protocol.answer_writer import AnswerWriter
from octavo_server.protocol.completions import CompletionChoice, CompletionResponse
from octavo_server.protocol.event_encoder import EventEncoder
from octavo_server.protocol.usage import Usage


class Writer(AnswerWriter):
    """Counts what is written the long way."""

    def __init__(self) -> None:
        self.num_chunks = 0

    def whole(self, outputs: Any, usage: Usage) -> CompletionResponse:
        raise NotImplementedError

    def chunk(self, place: int, delta: TokenDelta) -> CompletionResponse:
        self.num_chunks += 1
        return self._response([CompletionChoice(index=place * 2 + delta.index, text=delta.text, finish_reason=delta.finish_reason)])

    def plain_chunk(self, index: int, text: str) -> CompletionResponse:
        return self._response([CompletionChoice(index=index, text=text)])

    def usage_chunk(self, usage: Usage) -> CompletionResponse:
        answer = self._response([])
        answer.usage = usage
        return answer

    def _response(self, choices: list[CompletionChoice]) -> CompletionResponse:
        return CompletionResponse(id='a"\x00text\x00', created=1, model="m", system_fingerprint="f", choices=choices)


def encoder(writer: Writer, *, in_each: bool = False, at_end: bool = False) -> EventEncoder:
    return EventEncoder(writer, n=2, num_prompt_tokens=3, usage_in_each=in_each, usage_at_end=at_end)


def parsed(data: bytes) -> list[Any]:
    *parts, rest = data.decode().split("\n\n")
    assert rest == ""
    return [json.loads(part.removeprefix("data: ")) for part in parts]


@pytest.mark.parametrize("at_end", [False, True])
def test_the_short_way_writes_what_the_long_way_would(at_end: bool) -> None:
    writer = Writer()
    encode = encoder(writer, at_end=at_end)
    texts = ["first", "", 'quote " and \n', "\x00text\x00", "ž😀", "\u2028</script>"]
    deltas = [TokenDelta(1, 5, text) for text in texts]
    first, *others = parsed(encode.events(1, deltas, 0))
    assert writer.num_chunks == 1
    for text, other in zip(texts[1:], others, strict=True):
        assert other == {**first, "choices": [{**first["choices"][0], "text": text}]}
    assert first["choices"][0]["index"] == 3
    assert ("usage" in first) is at_end


def test_each_choice_begins_and_ends_the_long_way() -> None:
    writer = Writer()
    encode = encoder(writer)
    deltas = [TokenDelta(index, 5, "x") for index in (0, 1, 0, 1, 0)] + [TokenDelta(0, 6, "y", finish_reason=FinishReason.STOP)]
    events = parsed(encode.events(0, deltas, 0))
    assert writer.num_chunks == 3
    assert [event["choices"][0]["finish_reason"] for event in events] == [None] * 5 + ["stop"]


def test_usage_so_far_is_that_of_the_event() -> None:
    encode = encoder(Writer(), in_each=True, at_end=True)
    deltas = [TokenDelta(0, 5, "x"), TokenDelta(0, 5, "x"), TokenDelta(0, None, "", finish_reason=FinishReason.ABORT)]
    events = parsed(encode.events(0, deltas, 2))
    assert [event["usage"]["completion_tokens"] for event in events] == [1, 2, 2]
    assert events[0]["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    (last,) = parsed(encode.closing_events(Usage.of(3, 2, 2)))
    assert last["usage"]["total_tokens"] == 5


def test_nobody_gets_usage_unasked() -> None:
    assert encoder(Writer()).closing_events(Usage.of(3, 2, 2)) == b""
