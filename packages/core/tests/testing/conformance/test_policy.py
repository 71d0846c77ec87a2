import pytest

from octavo.request import Request
from octavo.scheduler.policy import FirstComeFirstServed, Priority, SchedulerPolicy
from octavo.testing.conformance import POLICY_CASES, PolicyCase, check_scheduler_policy


class Backwards(SchedulerPolicy):
    def key(self, request: Request) -> tuple[int, ...]:
        return (-request.num_prompt_tokens, request.arrival)


class Equal(SchedulerPolicy):
    def key(self, request: Request) -> tuple[int, ...]:
        return (request.priority,)


class Moving(SchedulerPolicy):
    def key(self, request: Request) -> tuple[int, ...]:
        return (len(request.token_ids), request.arrival)


class Fraction(SchedulerPolicy):
    def key(self, request: Request) -> tuple[int, ...]:
        return (request.num_prompt_tokens / 2, request.arrival)  # type: ignore[return-value]


class LastCome(SchedulerPolicy):
    def key(self, request: Request) -> tuple[int, ...]:
        return (-request.arrival,)


@pytest.mark.parametrize("policy", [FirstComeFirstServed, Priority, Backwards])
@pytest.mark.parametrize("case", POLICY_CASES, ids=str)
def test_conforms(policy: type[SchedulerPolicy], case: PolicyCase) -> None:
    check_scheduler_policy(policy, case)


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (Equal, "must end with its arrival"),
        (Moving, "must not change"),
        (Fraction, "must be integers"),
        (LastCome, "must end with its arrival"),
    ],
)
def test_a_faulty_policy_is_found(policy: type[SchedulerPolicy], fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_scheduler_policy(policy, POLICY_CASES[0])
