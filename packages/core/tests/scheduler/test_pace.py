"""The budget of steps follows the time that full ones take."""

import pytest

from octavo.config.scheduler import SchedulerConfig
from octavo.scheduler.pace import LEAST_BUDGET, Pace


def pace(step_time_s: float | None = 0.25) -> Pace:
    return Pace(SchedulerConfig(max_num_seqs=16, max_num_batched_tokens=512, step_time_s=step_time_s))


@pytest.mark.parametrize(("seconds_a_token", "expected"), [(0.001, 250), (0.0001, 512), (1.0, LEAST_BUDGET)])
def test_it_settles_where_a_full_step_takes_the_time(seconds_a_token: float, expected: int) -> None:
    steps = pace()
    for _ in range(40):
        steps.observe(steps.budget, steps.budget * seconds_a_token)
    assert steps.budget == pytest.approx(expected, abs=2)


def test_it_rises_again() -> None:
    steps = pace()
    for seconds_a_token in [0.002] * 40 + [0.0004] * 40:
        steps.observe(steps.budget, steps.budget * seconds_a_token)
    assert steps.budget == 512


def test_a_single_slow_step_does_little() -> None:
    steps = pace()
    steps.observe(512, 2.5)
    assert steps.budget > 512 * 0.7


def test_steps_that_are_not_full_or_not_timed_say_nothing() -> None:
    steps = pace()
    steps.observe(100, 9.0)
    steps.observe(512, 0.0)
    assert steps.budget == 512


def test_without_a_time_the_budget_stands() -> None:
    steps = pace(None)
    steps.observe(512, 9.0)
    assert steps.budget == 512
