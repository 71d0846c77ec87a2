from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.plain_json import json_problem

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(VALUES)
def test_plain_values_come_out_of_a_message_as_they_went_in(value: Any) -> None:
    assert json_problem(value) is None
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value)) == value


def circle() -> list[Any]:
    round_and_round: list[Any] = []
    round_and_round.append(round_and_round)
    return round_and_round


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "nan, but numbers are finite"),
        ([1, [2.0, -float("inf")]], "-inf"),
        (2**64, "integers are of 64 bits"),
        ({"a": {3: 4}}, "the key 3"),
        ({None: 4}, "the key None"),
        ({"a": b"bytes"}, "no plain JSON"),
        ((1, 2), "no plain JSON"),
        ({"a": object()}, "no plain JSON"),
        (circle(), "more than 16 levels"),
        ([[0] * 50_000] * 2, "more than 65,536 values"),
        ([[0] * 50_000] * 10_000_000, "more than 65,536 values"),
        ([[[0] * 60_000] * 60_000], "more than 65,536 values"),
        ({"x": 10**5000}, "<int too large to show>, but integers are of 64 bits"),
        ({"a": {10**5000: 1}}, "the key <int too large to show>"),
    ],
)
def test_what_is_not_plain_is_named(value: Any, said: str) -> None:
    problem = json_problem(value)
    assert problem is not None
    assert said in problem
