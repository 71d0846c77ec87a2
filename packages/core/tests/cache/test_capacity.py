import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.cache.capacity import UNLIMITED, blocks_per_request, max_concurrency, pool_tokens
from octavo.testing.engine import fake_groups

GROUPS = st.lists(st.tuples(st.sampled_from([2, 4, 8]), st.none() | st.integers(1, 20)), min_size=1, max_size=4)


def test_a_request_takes_whole_blocks_of_every_group_but_of_windows_no_more_than_a_step_spans() -> None:
    groups = fake_groups((16, 16, 16), (None, 32, 32))
    assert blocks_per_request(groups, 17, max_step_tokens=64) == 6
    assert blocks_per_request(groups, 1600, max_step_tokens=1) == 100 + 2 * 3
    assert blocks_per_request(groups, 1600, max_step_tokens=64) == 100 + 2 * 7


def test_where_every_layer_forgets_the_length_does_not_matter_once_a_window_fits() -> None:
    groups = fake_groups((16, 16), (32, 32))
    assert pool_tokens(groups, 6, max_step_tokens=1) == UNLIMITED
    assert pool_tokens(groups, 5, max_step_tokens=1) == 32


@given(GROUPS, st.integers(0, 60), st.integers(1, 30))
def test_the_longest_request_fits_and_the_next_does_not(shapes: list[tuple[int, int | None]], num_blocks: int, step: int) -> None:
    groups = fake_groups(*zip(*shapes, strict=True))
    longest = pool_tokens(groups, num_blocks, max_step_tokens=step)
    assert blocks_per_request(groups, longest, max_step_tokens=step) <= num_blocks
    if longest < UNLIMITED:
        assert blocks_per_request(groups, longest + 1, max_step_tokens=step) > num_blocks


@pytest.mark.parametrize(("num_blocks", "expected"), [(100, 50.0), (1, 0.5), (2, 1.0), (3, 1.5)])
def test_without_windows_concurrency_is_blocks_over_blocks(num_blocks: int, expected: float) -> None:
    assert max_concurrency(fake_groups((16,)), num_blocks, 20, max_step_tokens=8) == expected


def test_one_request_runs_a_step_and_the_others_hold_their_windows() -> None:
    groups = fake_groups((16, 16), (None, 32))
    assert blocks_per_request(groups, 160, max_step_tokens=64) == 10 + 7
    assert blocks_per_request(groups, 160, max_step_tokens=1) == 10 + 3
    assert max_concurrency(groups, 17 + 5 * 13, 160, max_step_tokens=64) == 6.0
    assert max_concurrency(groups, 16, 160, max_step_tokens=64) == 16 / 17
