import json
from typing import Any

import pytest

from octavo_server.bench.answer import StreamedAnswer


def event(**chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def text(content: str, finish_reason: str | None = None) -> bytes:
    return event(choices=[{"index": 0, "text": content, "finish_reason": finish_reason}], usage=None)


def delta(finish_reason: str | None = None, **content: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": content, "finish_reason": finish_reason}])


def read(*arrivals: tuple[float, bytes]) -> StreamedAnswer:
    answer = StreamedAnswer()
    for moment, piece in arrivals:
        answer.feed(piece, moment)
    return answer


def test_first_last_and_gaps_are_those_of_events_with_output() -> None:
    usage = event(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 3})
    answer = read((1.0, text("a")), (1.5, text("b")), (2.5, text("c", "length")), (9.0, usage), (9.5, b"data: [DONE]\n\n"))
    assert (answer.first, answer.last, answer.gaps, answer.num_events) == (1.0, 2.5, [0.5, 1.0], 3)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    assert answer.is_complete


def test_events_of_one_piece_came_at_once() -> None:
    answer = read((1.0, text("a")), (3.0, text("b") + text("c")))
    assert answer.gaps == [2.0, 0.0]
    assert not answer.is_complete


def test_an_event_counts_when_its_end_is_there() -> None:
    whole = text("a")
    answer = read((1.0, whole[:10]), (2.0, whole[10:]))
    assert answer.first == 2.0


def test_text_that_is_held_back_is_output_and_a_bare_end_is_none() -> None:
    answer = read((1.0, text("")), (2.0, text("é")), (4.0, text("", "stop")))
    assert (answer.first, answer.last, answer.gaps, answer.num_events) == (1.0, 4.0, [1.0], 2)


def test_the_role_of_a_chat_is_no_output_and_reasoning_is() -> None:
    answer = read(
        (1.0, delta(role="assistant", content="")),
        (2.0, delta(reasoning_content="hm")),
        (3.0, delta(reasoning="hm")),
        (4.0, delta(content="hi")),
        (5.0, delta(tool_calls=[{"index": 0, "function": {"name": "f"}}])),
        (6.0, delta(content="")),
        (7.0, delta("stop")),
    )
    assert (answer.first, answer.last, answer.gaps, answer.num_events) == (2.0, 7.0, [1.0] * 4, 5)


def test_a_role_may_come_with_content() -> None:
    assert read((1.0, delta(role="assistant", content="hi"))).first == 1.0


def test_an_answer_without_output_begins_where_it_ends() -> None:
    answer = read((1.0, text("", "stop")))
    assert (answer.first, answer.last, answer.gaps, answer.is_complete) == (1.0, 1.0, [], True)


@pytest.mark.parametrize(
    ("piece", "kind", "said"),
    [
        (event(error={"message": "out of\nblocks", "code": 500}), "stream error", "out of blocks"),
        (event(error="broken"), "stream error", "broken"),
        (event(object="error", message="lost"), "stream error", "lost"),
        (text("", "error"), "stream error", "finish_reason 'error'"),
        (b"data: {nonsense\n\n", "malformed event", "{nonsense"),
        (b'data: {"choices": 3}\n\n', "malformed event", "choices"),
        (b"data: \xff\n\n", "malformed event", "xff"),
    ],
)
def test_what_the_server_breaks_off_with_is_a_failure(piece: bytes, kind: str, said: str) -> None:
    answer = read((1.0, text("a")), (2.0, piece), (3.0, text("b", "length") + b"data: [DONE]\n\n"))
    assert answer.failure is not None
    assert answer.failure.kind == kind
    assert said in answer.failure.message
    assert answer.num_events == 1
