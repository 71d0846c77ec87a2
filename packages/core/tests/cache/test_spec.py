from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.cache.spec import MAX_GROUPS, FullAttentionSpec, KVGroup, SlidingWindowSpec, kv_groups, layers_per_group
from octavo.model.config import ModelConfig, RopeConfig

MODEL = ModelConfig(
    architecture="any",
    vocab_size=100,
    hidden_size=64,
    intermediate_size=64,
    num_layers=26,
    num_heads=4,
    num_kv_heads=2,
    head_size=16,
    rms_norm_eps=1e-6,
    rope=RopeConfig(theta=1e4, dim=16),
    max_position=32_768,
    tie_embeddings=True,
)
GEMMA = replace(MODEL, sliding_window=512, windowed_layers=tuple((layer + 1) % 6 != 0 for layer in range(26)))
TOKEN = 2 * 2 * 16 * 2


def window_group(window: int, block_size: int) -> KVGroup:
    spec = SlidingWindowSpec(num_kv_heads=1, head_size=8, dtype="float32", window=window)
    return KVGroup(spec=spec, layers=(0,), block_size=block_size)


def test_a_model_without_windows_is_one_group() -> None:
    (group,) = kv_groups(MODEL, block_size=16, dtype="bfloat16")
    assert group.spec == FullAttentionSpec(num_kv_heads=2, head_size=16, dtype="bfloat16")
    assert group.layers == tuple(range(26))
    assert (group.num_padded_layers, group.bytes_per_token, group.bytes_per_block) == (0, 26 * TOKEN, 16 * 26 * TOKEN)


def test_a_model_whose_layers_all_have_the_window_is_one_group() -> None:
    (group,) = kv_groups(replace(MODEL, sliding_window=512), block_size=16, dtype="bfloat16")
    assert group.spec == SlidingWindowSpec(num_kv_heads=2, head_size=16, dtype="bfloat16", window=512)
    assert group.layers == tuple(range(26))


def test_layers_of_a_mixed_model_are_split_into_groups_of_equal_bytes_and_padding_is_counted() -> None:
    full, *windows = kv_groups(GEMMA, block_size=16, dtype="bfloat16")
    assert (full.spec.window, full.layers, full.num_padded_layers) == (None, (5, 11, 17, 23), 0)
    assert [group.spec.window for group in windows] == [512] * 6
    assert [len(group.layers) for group in windows] == [4, 4, 4, 4, 4, 2]
    assert [group.num_padded_layers for group in windows] == [0, 0, 0, 0, 0, 2]
    assert {group.bytes_per_block for group in (full, *windows)} == {16 * 4 * TOKEN}
    assert sorted(layer for group in (full, *windows) for layer in group.layers) == list(range(26))


@pytest.mark.parametrize(
    ("full", "windowed", "size"),
    [(3, 15, 3), (4, 22, 4), (5, 29, 5), (8, 40, 8), (10, 52, 10), (18, 18, 18), (12, 13, 4), (20, 4, 4), (1, 1, 1)],
)
def test_a_group_pads_where_it_costs_least(full: int, windowed: int, size: int) -> None:
    assert layers_per_group({None: full, 1024: windowed}, 131_072) == size


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 5000), st.integers(1, 100_000))
def test_there_are_never_many_groups(full: int, windowed: int, window: int, longest: int) -> None:
    size = layers_per_group({None: full, window: windowed}, longest)
    assert -(-full // size) - (-windowed // size) <= MAX_GROUPS


@given(st.integers(1, 20), st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 12), st.integers(1, 60))
def test_a_window_holds_no_more_blocks_than_promised_and_exactly_those_that_are_read(
    window: int, block_size: int, step: int, num_tokens: int
) -> None:
    group, most = window_group(window, block_size), 0
    for start in range(num_tokens):
        end = min(start + step, num_tokens)
        read = {position // block_size for row in range(start, end) for position in range(max(0, row - window + 1), row + 1)}
        assert min(read) == group.first_block(start)
        most = max(most, -(-end // block_size) - group.first_block(start))
    assert most <= group.most_blocks(num_tokens, step)
    if num_tokens >= 2 * (window + step + block_size):
        assert most == group.most_blocks(num_tokens, step)


@given(st.integers(1, 20), st.sampled_from([1, 2, 4]), st.integers(0, 10))
def test_a_block_is_passed_when_it_is_before_the_first_that_is_read(window: int, block_size: int, block: int) -> None:
    group = window_group(window, block_size)
    position = group.passed_at(block)
    assert position is not None
    assert group.first_block(position - 1) <= block < group.first_block(position)
