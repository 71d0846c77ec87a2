"""Answers are written in order, as soon as they can be."""

import json
from collections.abc import Iterator

import pytest

from octavo.cli.answers import AnswerWriter
from octavo.errors import RequestFailedError
from octavo.outputs import CompletionOutput, Logprob, RequestOutput
from octavo.types import FinishReason


def output(text: str, **more: object) -> RequestOutput:
    choice = CompletionOutput(index=0, text=text, token_ids=[1], finish_reason=FinishReason.STOP)
    for name, value in more.items():
        setattr(choice, name, value)
    return RequestOutput(request_id="0", prompt=None, prompt_token_ids=[1, 2], outputs=[choice], finished=True)


def test_an_answer_waits_for_those_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []

    def outputs() -> Iterator[tuple[int, RequestOutput]]:
        for place in (1, 0, 2):
            yield place, output(f"answer {place}")
            seen.append(capsys.readouterr().out)

    AnswerWriter(["a", "b", "c"], as_json=False).write_all(outputs())
    assert seen == ["", "answer 0\n\nanswer 1\n", "\nanswer 2\n"]


def test_an_interrupted_batch_leaves_every_finished_answer_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    def outputs() -> Iterator[tuple[int, RequestOutput]]:
        yield 2, output("late")
        yield 0, output("first")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AnswerWriter(["a", "b", "c"], as_json=True).write_all(outputs())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["prompt"], line["text"]) for line in lines] == [("a", "first"), ("c", "late")]


def test_a_failed_answer_is_reported_when_the_others_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    failed = output("", finish_reason=FinishReason.ERROR, error="its numbers overflowed")
    with pytest.raises(RequestFailedError, match=r"1 answers failed, the first to prompt 1: its numbers overflowed"):
        AnswerWriter(["a", "b"], as_json=False).write_all([(0, failed), (1, output("fine"))])
    assert capsys.readouterr().out == "fine\n"


def test_log_probabilities_name_token_and_rank(capsys: pytest.CaptureFixture[str]) -> None:
    answer = output("x", logprobs=[{7: Logprob(-0.5, 1, "x")}])
    AnswerWriter(["a"], as_json=True).write_all([(0, answer)])
    assert json.loads(capsys.readouterr().out)["logprobs"] == [[{"token_id": 7, "logprob": -0.5, "rank": 1, "decoded_token": "x"}]]
