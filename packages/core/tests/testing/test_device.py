from typing import Any

import msgspec
import pytest

from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest, ContinuedRequest, StepPlan
from octavo.testing.device import FakeDevice
from octavo.testing.model import continuation

ADDED = AddedRequest(
    request_id="a",
    epoch=0,
    token_ids=[5, 6, 7],
    num_prompt_tokens=3,
    num_computed_tokens=0,
    block_ids=[[1]],
    params=SamplingParams(temperature=0),
    ending_token_ids=[],
    seed=0,
)
CONTINUED = ContinuedRequest(request_id="a", epoch=0, num_computed_tokens=3, new_block_ids=[[]])
FIRST = StepPlan(step_id=0, removed=[], added=[ADDED], continued=[], num_tokens={"a": 3}, num_output_tokens={"a": 0})
SECOND = StepPlan(step_id=1, removed=[], added=[], continued=[CONTINUED], num_tokens={"a": 1}, num_output_tokens={"a": 1})


def make_device() -> FakeDevice:
    return FakeDevice((4,), num_blocks=3, max_num_seqs=2, max_num_batched_tokens=4)


def test_a_right_plan_gives_what_the_model_gives() -> None:
    device = make_device()
    tokens = device.execute(FIRST).token_ids["a"] + device.execute(SECOND).token_ids["a"]
    assert tokens == continuation([5, 6, 7], 2)


@pytest.mark.parametrize(
    "fault",
    [
        {"step_id": 2},
        {"added": [ADDED]},
        {"removed": ["a"]},
        {"num_tokens": {}},
        {"num_tokens": {"a": 0}},
        {"num_tokens": {"a": 2}},
        {"num_tokens": {"a": 5}},
        {"num_output_tokens": {"a": 0}},
        {"continued": [msgspec.structs.replace(CONTINUED, epoch=1)]},
        {"continued": [msgspec.structs.replace(CONTINUED, num_computed_tokens=2)]},
        {"continued": [msgspec.structs.replace(CONTINUED, new_block_ids=[[9]])]},
        {"added": [msgspec.structs.replace(ADDED, request_id="b", num_computed_tokens=2, block_ids=[[2]])], "num_tokens": {"a": 1, "b": 1}},
        {"added": [msgspec.structs.replace(ADDED, request_id="b", token_ids=[8])], "num_tokens": {"a": 1, "b": 1}},
        {"added": [msgspec.structs.replace(ADDED, request_id="b", block_ids=[[0]])], "num_tokens": {"a": 1, "b": 1}},
        {"added": [msgspec.structs.replace(ADDED, request_id="b", block_ids=[[]])], "num_tokens": {"a": 1, "b": 1}},
    ],
)
def test_the_device_finds(fault: dict[str, Any]) -> None:
    device = make_device()
    device.execute(FIRST)
    with pytest.raises((AssertionError, KeyError)):
        device.execute(msgspec.structs.replace(SECOND, **fault))


def test_min_tokens_keeps_ending_tokens_from_being_drawn() -> None:
    first = continuation([5, 6, 7], 1)[0]
    added = msgspec.structs.replace(ADDED, params=SamplingParams(temperature=0, min_tokens=1), ending_token_ids=[first])
    plan = msgspec.structs.replace(FIRST, added=[added])
    assert make_device().execute(plan).token_ids["a"] == [first + 1]


def windowed_plans(block_ids: list[int]) -> list[StepPlan]:
    """Two blocks of prompt, one token more a step; then the request comes again with these blocks for its first eight tokens."""
    added = msgspec.structs.replace(ADDED, token_ids=list(range(9)), num_prompt_tokens=9, block_ids=[[1, 2, 3]])
    first = StepPlan(step_id=0, removed=[], added=[added], continued=[], num_tokens={"a": 9}, num_output_tokens={"a": 0})
    again = msgspec.structs.replace(added, num_computed_tokens=8, block_ids=[block_ids])
    second = StepPlan(step_id=1, removed=["a"], added=[again], continued=[], num_tokens={"a": 1}, num_output_tokens={"a": 0})
    return [first, second]


@pytest.mark.parametrize(("window", "block_ids"), [(None, [1, 2, 3]), (5, [1, 2, 3]), (5, [0, 2, 3]), (1, [0, 0, 3]), (6, [1, 2, 3])])
def test_blocks_before_a_window_may_be_null(window: int | None, block_ids: list[int]) -> None:
    device = FakeDevice((4,), num_blocks=3, windows=(window,))
    for plan in windowed_plans(block_ids):
        assert device.execute(plan).token_ids["a"] == continuation(range(9), 1)


@pytest.mark.parametrize(("window", "block_ids"), [(None, [0, 2, 3]), (6, [0, 2, 3]), (5, [0, 0, 3]), (1, [0, 0, 0]), (6, [2, 1, 3])])
def test_reading_or_writing_the_null_block_is_a_fault(window: int | None, block_ids: list[int]) -> None:
    device = FakeDevice((4,), num_blocks=3, windows=(window,))
    first, second = windowed_plans(block_ids)
    device.execute(first)
    with pytest.raises(AssertionError):
        device.execute(second)
