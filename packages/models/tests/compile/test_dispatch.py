"""The choice of a graph, for all batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo_kernels.attention import GraphSupport
from octavo_models.compile.dispatch import BatchFacts, Dispatcher, GraphKey, GraphMode, capture_sizes, lower_modes

PIECEWISE, FULL = GraphMode.PIECEWISE, GraphMode.FULL


def test_sizes_grow_with_the_limit() -> None:
    assert capture_sizes(1) == (1,)
    assert capture_sizes(5) == (1, 2, 4, 5)
    assert capture_sizes(24) == (1, 2, 4, 8, 16, 24)
    assert capture_sizes(2048)[-3:] == (480, 496, 512)
    assert 256 in capture_sizes(2048)
    assert 264 not in capture_sizes(2048)


@given(st.integers(1, 4096))
def test_sizes_are_sorted_and_end_with_the_limit(largest: int) -> None:
    sizes = capture_sizes(largest)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[-1] == min(largest, 512)


@given(
    modes=st.sets(st.sampled_from(GraphMode)),
    max_requests=st.integers(1, 700),
    more=st.integers(1, 600),
    num_tokens=st.integers(1, 800),
    samples=st.booleans(),
    prompt=st.booleans(),
    data=st.data(),
)
def test_a_batch_gets_the_smallest_graph_that_holds_it(
    modes: set[GraphMode], max_requests: int, more: int, num_tokens: int, samples: bool, prompt: bool, data: st.DataObject
) -> None:
    max_tokens = max_requests + more
    dispatcher = Dispatcher(list(modes), max_tokens=max_tokens, max_requests=max_requests)
    num_tokens = min(num_tokens, max_tokens)
    num_requests = data.draw(st.integers(1, min(num_tokens, max_requests)))
    every_row_samples = samples and num_requests == num_tokens
    key = dispatcher.key(
        BatchFacts(num_tokens=num_tokens, num_requests=num_requests, every_row_samples=every_row_samples, wants_prompt=prompt)
    )
    keys = dispatcher.keys()
    can_be_full = every_row_samples and not prompt and FULL in modes and num_tokens <= min(512, max_requests)
    if can_be_full:
        assert key is not None
        assert key.mode is FULL
    elif PIECEWISE in modes and num_tokens <= min(512, max_tokens):
        assert key is not None
        assert key.mode is PIECEWISE
    else:
        assert key is None
        return
    assert key in keys
    assert key.num_rows == min(other.num_rows for other in keys if other.mode is key.mode and other.num_rows >= num_tokens)
    assert key.num_rows <= (max_requests if key.mode is FULL else max_tokens), "buffers hold what is padded"


@given(st.sets(st.sampled_from(GraphMode)), st.integers(1, 600), st.integers(1, 600))
def test_graphs_are_captured_piecewise_first_and_largest_first(modes: set[GraphMode], max_tokens: int, max_requests: int) -> None:
    keys = Dispatcher(list(modes), max_tokens=max_tokens, max_requests=max_requests).keys()
    assert len(set(keys)) == len(keys)
    assert [key.mode for key in keys] == sorted((key.mode for key in keys), key=[PIECEWISE, FULL].index)
    for mode in modes:
        sizes = [key.num_rows for key in keys if key.mode is mode]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("support", GraphSupport)
def test_attention_that_is_not_captured_lowers_full_to_piecewise(support: GraphSupport) -> None:
    lowered = (PIECEWISE,) if support is GraphSupport.NEVER else (PIECEWISE, FULL)
    assert lower_modes([PIECEWISE, FULL], support, all_borders_attend=True) == lowered
    assert lower_modes([PIECEWISE, FULL], support, all_borders_attend=False) == (PIECEWISE,)
    assert lower_modes([], support, all_borders_attend=True) == ()


def test_one_token_of_one_request_is_a_full_graph_of_one_row() -> None:
    dispatcher = Dispatcher([PIECEWISE, FULL], max_tokens=64, max_requests=4)
    assert dispatcher.key(BatchFacts(num_tokens=1, num_requests=1, every_row_samples=True)) == GraphKey(FULL, 1)
    assert dispatcher.key(BatchFacts(num_tokens=1, num_requests=1, every_row_samples=False)) == GraphKey(PIECEWISE, 1)
