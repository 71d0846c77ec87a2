import pytest

from octavo.scheduler.plan import StepPlan, StepResult
from octavo.testing.engine import FakeEngine, fake_engine
from octavo.testing.model import continuation
from octavo.types import FinishReason


def failing_engine(request_id: str, step: int, **options: object) -> FakeEngine:
    def faults(plan: StepPlan) -> dict[str, str]:
        return {request_id: "NaN"} if plan.step_id == step and request_id in plan.num_tokens else {}

    return fake_engine(faults=faults, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("max_in_flight", [1, 2])
@pytest.mark.parametrize("step", [0, 1, 2, 4])
def test_an_error_ends_its_request_alone(step: int, max_in_flight: int) -> None:
    engine = failing_engine("a", step, max_in_flight=max_in_flight)
    engine.add("a", range(50), max_tokens=20)
    engine.add("b", range(100, 110), max_tokens=20)
    engine.run()
    last = engine.last["a"]
    assert (last.finish_reason, last.error) == (FinishReason.ERROR, "NaN")
    assert engine.tokens["a"] == continuation(range(50), 20)[: len(engine.tokens["a"])]
    assert engine.tokens["b"] == continuation(range(100, 110), 20)
    assert engine.loop.stats().counters.finished[FinishReason.ERROR] == 1


def test_nobody_hits_the_blocks_of_a_failed_request_nor_what_hangs_on_them() -> None:
    engine = failing_engine("bad", 1, max_num_batched_tokens=64)
    engine.add("bad", range(40), max_tokens=9)
    engine.add("sharer", [*range(40), *range(20)], max_tokens=9)
    engine.add("other", range(500, 540), max_tokens=9)
    engine.run()
    assert engine.last["bad"].finish_reason is FinishReason.ERROR
    assert engine.tokens["sharer"] == continuation([*range(40), *range(20)], 9)
    for name, prompt, cached in (("again", [*range(40), *range(20)], 0), ("other again", range(500, 540), 32)):
        engine.add(name, list(prompt), max_tokens=1)
        engine.run()
        assert engine.last[name].num_cached_tokens == cached


def test_an_error_of_an_aborted_request_still_withdraws_its_blocks() -> None:
    engine = failing_engine("a", 1, max_in_flight=2)
    engine.add("a", range(50), max_tokens=5)
    engine.step()
    engine.loop.abort("a")
    engine.run()
    engine.add("b", range(50), max_tokens=5)
    engine.run()
    assert engine.last["b"].num_cached_tokens == 0


def test_a_runner_that_returns_no_token_fails_that_request_only() -> None:
    engine = fake_engine()
    engine.add("a", range(5), max_tokens=5)
    plan = engine.scheduler.schedule()
    assert plan is not None
    [output] = engine.scheduler.update(plan, StepResult(step_id=plan.step_id, token_ids={}))
    assert output.finish_reason is FinishReason.ERROR
    assert output.error is not None
    assert "one sampled token" in output.error
