"""The token budget follows the time that a prompt takes."""

import pytest

from octavo.config.scheduler import SchedulerConfig
from octavo.scheduler.plan import StepPlan
from octavo_models.runner import step_budget
from octavo_models.runner.step_budget import measure_budget


class Clock:
    """Advances by some seconds for each token that is run."""

    def __init__(self, seconds_a_token: float) -> None:
        self.now = 0.0
        self.seconds_a_token = seconds_a_token
        self.plans: list[StepPlan] = []

    def run(self, plan: StepPlan) -> None:
        slow_start = 9.0 if not self.plans else 0.0
        self.plans.append(plan)
        self.now += plan.total_tokens * self.seconds_a_token + slow_start


def budget(
    monkeypatch: pytest.MonkeyPatch, seconds_a_token: float, *, max_num_seqs: int = 16, limit: int = 2048, max_model_len: int = 512
) -> tuple[int, Clock]:
    clock = Clock(seconds_a_token)
    monkeypatch.setattr(step_budget.time, "perf_counter", lambda: clock.now)
    config = SchedulerConfig(max_num_seqs=max_num_seqs, max_num_batched_tokens=limit, step_time_s=0.25)
    return int(measure_budget(clock.run, config, max_model_len=max_model_len, block_size=16, num_groups=2).value), clock


def test_a_full_step_takes_the_time_that_is_asked_for_in_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    value, _ = budget(monkeypatch, 0.00059)
    assert value == int(0.25 / 0.00059) // 16 * 16 == 416


@pytest.mark.parametrize(("seconds_a_token", "expected"), [(1.0, 128), (1e-6, 2048)])
def test_it_stays_between_the_least_and_what_is_configured(monkeypatch: pytest.MonkeyPatch, seconds_a_token: float, expected: int) -> None:
    assert budget(monkeypatch, seconds_a_token)[0] == expected


def test_every_request_keeps_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert budget(monkeypatch, 1.0, max_num_seqs=256)[0] == 256


def test_what_ran_is_forgotten_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _, clock = budget(monkeypatch, 0.001, limit=64)
    runs, removals = clock.plans[::2], clock.plans[1::2]
    assert [plan.total_tokens for plan in runs] == [64] * 3
    assert all(not plan.num_tokens and plan.removed == list(run.num_tokens) for run, plan in zip(runs, removals, strict=True))


def test_no_prompt_is_longer_than_the_model_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    _, clock = budget(monkeypatch, 0.001, max_model_len=40)
    assert {plan.total_tokens for plan in clock.plans} == {40, 0}
