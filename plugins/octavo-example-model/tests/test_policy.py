import pytest

from octavo.testing.conformance import POLICY_CASES, PolicyCase, check_scheduler_policy
from octavo.testing.engine import fake_engine
from octavo_example_model.policy import LeastWorkFirst


@pytest.mark.parametrize("case", POLICY_CASES, ids=str)
def test_conforms(case: PolicyCase) -> None:
    check_scheduler_policy(LeastWorkFirst, case)


def test_the_shortest_request_is_served_first() -> None:
    engine = fake_engine(max_num_seqs=1, policy=LeastWorkFirst())
    engine.add("long", [5] * 40, max_tokens=20)
    engine.add("short", [6] * 4, max_tokens=2)
    engine.step()
    assert (len(engine.tokens["short"]), len(engine.tokens["long"])) == (1, 0)
