"""The token budget follows the time that a prompt takes."""

import pytest

from octavo.config.scheduler import SchedulerConfig
from octavo.scheduler.plan import StepPlan
from octavo_models.runner import trial
from octavo_models.runner.step_budget import StepBudget, measure_budget


class Clock:
    """Advances by some seconds for each token that is run, and as many again for each `scale` tokens of its context."""

    def __init__(self, seconds_a_token: float, scale: float) -> None:
        self.now = 0.0
        self.seconds_a_token = seconds_a_token
        self.scale = scale
        self.plans: list[StepPlan] = []

    def run(self, plan: StepPlan) -> None:
        slow_start = 9.0 if not self.plans else 0.0
        self.plans.append(plan)
        context = sum(request.num_computed_tokens for request in plan.added)
        self.now += plan.total_tokens * self.seconds_a_token * (1 + context / self.scale) + slow_start


def budget(
    monkeypatch: pytest.MonkeyPatch,
    seconds_a_token: float,
    *,
    max_num_seqs: int = 16,
    limit: int = 2048,
    max_model_len: int = 512,
    scale: float = 1000,
) -> tuple[StepBudget, Clock]:
    clock = Clock(seconds_a_token, scale)
    monkeypatch.setattr(trial.time, "perf_counter", lambda: clock.now)
    config = SchedulerConfig(max_num_seqs=max_num_seqs, max_num_batched_tokens=limit, step_time_s=0.25)
    return measure_budget(clock.run, config, max_model_len=max_model_len, block_size=16, num_groups=2), clock


def test_a_full_step_takes_the_time_that_is_asked_for_in_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    value, _ = budget(monkeypatch, 0.00059)
    assert value.max_num_batched_tokens == int(0.25 / 0.00059) // 16 * 16 == 416


@pytest.mark.parametrize(("seconds_a_token", "expected"), [(1.0, 128), (1e-6, 2048)])
def test_it_stays_between_the_least_and_what_is_configured(monkeypatch: pytest.MonkeyPatch, seconds_a_token: float, expected: int) -> None:
    assert budget(monkeypatch, seconds_a_token)[0].max_num_batched_tokens == expected


def test_every_request_keeps_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert budget(monkeypatch, 1.0, max_num_seqs=256)[0].max_num_batched_tokens == 256


def test_what_ran_is_forgotten_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _, clock = budget(monkeypatch, 0.001, limit=64)
    runs, removals = clock.plans[::2], clock.plans[1::2]
    assert [plan.total_tokens for plan in runs] == [64] * 5
    assert all(not plan.num_tokens and plan.removed == list(run.num_tokens) for run, plan in zip(runs, removals, strict=True))


def test_no_prompt_is_longer_than_the_model_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    _, clock = budget(monkeypatch, 0.001, max_model_len=40)
    assert {plan.total_tokens for plan in clock.plans} == {40, 0}


@pytest.mark.parametrize("scale", [200, 5000])
def test_what_a_context_costs_is_measured(monkeypatch: pytest.MonkeyPatch, scale: float) -> None:
    value, clock = budget(monkeypatch, 0.001, max_model_len=8192, scale=scale)
    assert value.context_scale == pytest.approx(scale, rel=0.01)
    assert {request.num_computed_tokens for plan in clock.plans for request in plan.added} == {0, 2048}
    assert [decision.name for decision in value.decisions] == ["max_num_batched_tokens", "context_scale"]


def test_short_contexts_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert budget(monkeypatch, 0.001, max_model_len=300)[0].context_scale == 0
