"""What a faulty runner leaves out ends its request with words, and what it errs in without harm keeps the cache."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from octavo.scheduler.plan import StepResult
from octavo.testing.engine import FakeEngine, fake_engine
from octavo.types import FinishReason

PROMPT = list(range(10, 50))


def tampered(change: Callable[[StepResult], StepResult]) -> FakeEngine:
    """An engine whose device's results are changed."""
    engine = fake_engine()
    execute = engine.executor.device.execute
    engine.executor.device.execute = lambda plan: change(execute(plan))  # type: ignore[method-assign]
    return engine


@pytest.mark.parametrize(
    ("change", "params", "said"),
    [
        ({"logprobs": {}}, {"logprobs": 0}, "no log-probabilities of the token"),
        ({"prompt_logprobs": {}}, {"prompt_logprobs": 0}, "log-probabilities of 0 tokens of the prompt where 39 were due"),
        ({"prompt_logprobs": {}}, {"prompt_logprobs": 0, "max_tokens": 0}, "0 tokens of the prompt where 39"),
        ({"token_ids": {}}, {}, "returned None where one sampled token was due"),
    ],
)
def test_what_is_missing_is_said(change: dict[str, Any], params: dict[str, Any], said: str) -> None:
    engine = tampered(lambda result: msgspec.structs.replace(result, **change))
    engine.add("a", PROMPT, **params)
    engine.run()
    assert engine.last["a"].finish_reason is FinishReason.ERROR
    assert said in (engine.last["a"].error or "")


def test_what_a_sound_failure_computed_is_shared_and_what_another_did_is_not() -> None:
    for sound, cached in (([], 0), (["a"], 32)):
        engine = tampered(
            lambda result, sound=sound: (  # type: ignore[misc]
                msgspec.structs.replace(result, errors={"a": "raised"}, sound=sound) if "a" in result.token_ids else result
            )
        )
        engine.add("a", PROMPT)
        engine.run()
        assert engine.last["a"].error == "raised"
        engine.add("b", PROMPT, max_tokens=1)
        engine.run()
        assert engine.last["b"].num_cached_tokens == cached
