"""The longest cached prefix against the definition: try every length, longest first."""

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from octavo.cache.lookup import Lookup, longest_prefix
from octavo.testing.engine import fake_groups

LENGTH = 40
SHAPES = st.lists(st.tuples(st.sampled_from([2, 4]), st.none() | st.integers(1, 14)), min_size=1, max_size=3)


def cached(blocks: Sequence[int]) -> Lookup:
    """Block `100 + index` for each index that is there."""
    return lambda index: 100 + index if index in blocks else None


@given(SHAPES, st.data())
def test_it_is_the_longest_that_every_group_can_serve(shapes: list[tuple[int, int | None]], data: st.DataObject) -> None:
    groups = fake_groups(*zip(*shapes, strict=True))
    there = [data.draw(st.frozensets(st.integers(0, LENGTH // 2), min_size=8)) for _ in groups]
    num_tokens = data.draw(st.integers(0, LENGTH))

    def serves(length: int, size: int, window: int | None, blocks: frozenset[int]) -> bool:
        """Whether every position that a token at `length` reads is there."""
        first = 0 if window is None else max(0, length - window + 1)
        return length % size == 0 and all(position // size in blocks for position in range(first, length))

    alignment = math.lcm(*(size for size, _ in shapes))
    expected = max(
        length
        for length in range(0, num_tokens + 1, alignment)
        if all(serves(length, *shape, blocks) for shape, blocks in zip(shapes, there, strict=True))
    )
    prefix = longest_prefix(groups, [cached(sorted(blocks)) for blocks in there], num_tokens)
    assert prefix.num_tokens == expected
    for (size, window), table in zip(shapes, prefix.block_ids, strict=True):
        first = 0 if window is None else max(0, expected - window + 1) // size
        assert table == [0] * first + [100 + index for index in range(first, expected // size)]
