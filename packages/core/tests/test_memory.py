import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.cache.capacity import blocks_per_request, max_concurrency, pool_tokens
from octavo.cache.spec import FullAttentionSpec, KVGroup, SlidingWindowSpec
from octavo.config.cache import CacheConfig
from octavo.engine.runner import PoolSize
from octavo.errors import ConfigurationError
from octavo.memory import MemoryLedger, log_pool, size_pool

GIB = 1 << 30
SPEC = FullAttentionSpec(num_kv_heads=8, head_size=128, dtype="bfloat16")
GROUPS = (KVGroup(spec=SPEC, layers=tuple(range(32)), block_size=16),)
"""Llama 3 8B: 131,072 bytes a token, 2 MiB a block."""
BLOCK = 2 << 20
STEP = 2048


def cache(**fields: Any) -> CacheConfig:
    defaults: dict[str, Any] = {"num_blocks": None, "memory_bytes": None, "memory_utilization": None}
    return CacheConfig(block_size=16, dtype="bfloat16", enable_prefix_caching=True, **{**defaults, **fields})


def size(*, ledger: MemoryLedger | None = None, max_model_len: int = 2000, explicit: bool = True, seqs: int = 256, on_cpu: bool = True,
         groups: tuple[KVGroup, ...] = GROUPS, **fields: Any) -> PoolSize:  # fmt: skip
    return size_pool(
        groups=groups,
        cache=cache(**fields),
        max_model_len=max_model_len,
        max_model_len_is_explicit=explicit,
        max_num_seqs=seqs,
        max_step_tokens=STEP,
        ledger=ledger or MemoryLedger(total=1 << 60, available=1 << 60),
        on_cpu=on_cpu,
    )


def test_48_gib_of_an_8b_model_are_393216_tokens_and_196_requests_of_2000(caplog: pytest.LogCaptureFixture) -> None:
    pool = size(memory_bytes=48 * GIB)
    assert pool_tokens(GROUPS, pool.num_blocks, max_step_tokens=STEP) == 393_216
    assert int(max_concurrency(GROUPS, pool.num_blocks, 2000, max_step_tokens=STEP)) == 196
    with caplog.at_level(logging.INFO):
        log_pool(GROUPS, pool, max_step_tokens=STEP)
    assert caplog.messages == ["KV cache size: 393,216 tokens", "Maximum concurrency for 2,000 tokens per request: 196.61x"]


def test_the_null_block_comes_on_top() -> None:
    assert size(num_blocks=200).num_bytes == 201 * BLOCK


def test_a_number_of_blocks_is_taken_whatever_is_available() -> None:
    assert size(num_blocks=125, ledger=MemoryLedger(total=GIB, available=1)).num_blocks == 125


@pytest.mark.parametrize("wishes", [{"num_blocks": 1000}, {"memory_bytes": 1000 * BLOCK}])
def test_a_pool_larger_than_the_device_is_refused_with_the_largest_that_fits(wishes: dict[str, int]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"1,000 blocks takes 1\.95 GiB, and the device has 1\.00 GiB .*: give num_blocks 256 or less"
    ):
        size(**wishes, ledger=MemoryLedger(total=GIB, available=GIB // 2))


def test_a_cpu_gives_half_of_what_is_available() -> None:
    assert size(ledger=MemoryLedger(total=64 * GIB, available=8 * GIB, weights=GIB)).num_blocks == 4 * GIB // BLOCK


def test_a_cpu_gives_no_more_than_all_requests_can_fill() -> None:
    assert size(seqs=3).num_blocks == 3 * 125


def test_a_share_of_memory_counts_weights_activations_and_reserve_on_either_device() -> None:
    ledger = MemoryLedger(total=80 * GIB, available=70 * GIB, weights=16 * GIB, activations=2 * GIB, reserve=2 * GIB)
    for on_cpu in (True, False):
        assert size(ledger=ledger, memory_utilization=0.5, seqs=1, on_cpu=on_cpu).num_blocks == 20 * GIB // BLOCK


def test_a_gpu_is_filled_to_nine_tenths() -> None:
    ledger = MemoryLedger(total=80 * GIB, available=70 * GIB, weights=16 * GIB, activations=2 * GIB)
    assert size(ledger=ledger, on_cpu=False, seqs=1).num_blocks == 54 * GIB // BLOCK


def test_no_share_takes_more_than_is_available() -> None:
    ledger = MemoryLedger(total=80 * GIB, available=10 * GIB)
    assert size(ledger=ledger, memory_utilization=1.0).num_blocks == 10 * GIB // BLOCK


def test_a_length_left_to_us_is_reduced_to_the_largest_that_fits_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        pool = size(num_blocks=10, max_model_len=512, explicit=False)
    assert pool.max_model_len == 160
    assert "max_model_len 512 needs 64.00 MiB" in caplog.text
    assert "reduced to 160" in caplog.text


def test_a_length_the_user_wants_is_refused_with_needed_available_and_largest() -> None:
    with pytest.raises(ConfigurationError) as problem:
        size(num_blocks=10, max_model_len=512)
    assert str(problem.value) == (
        "max_model_len 512 needs 64.00 MiB of KV cache (32 blocks) and 20.00 MiB (10 blocks) are available: "
        "give max_model_len 160 or less, or a larger kv_cache_memory_bytes or num_blocks"
    )


def test_a_request_that_exactly_fills_the_pool_fits() -> None:
    assert size(num_blocks=10, max_model_len=160).max_model_len == 160


@pytest.mark.parametrize("ledger", [MemoryLedger(total=GIB, available=0), MemoryLedger(total=GIB, available=GIB, weights=2 * GIB)])
@pytest.mark.parametrize("explicit", [True, False])
def test_not_even_one_block_is_refused(ledger: MemoryLedger, explicit: bool) -> None:
    with pytest.raises(ConfigurationError, match=r"no memory for the KV cache: one block of 16 tokens takes 2.00 MiB and 0 B are left"):
        size(ledger=ledger, on_cpu=False, explicit=explicit)


def test_requests_are_counted_in_whole_blocks() -> None:
    assert blocks_per_request(GROUPS, 16, max_step_tokens=STEP) == 1
    assert blocks_per_request(GROUPS, 17, max_step_tokens=STEP) == 2
    assert max_concurrency(GROUPS, 10, 17, max_step_tokens=STEP) == 5.0


def test_a_request_takes_blocks_of_every_group() -> None:
    groups = GROUPS * 2
    assert blocks_per_request(groups, 17, max_step_tokens=STEP) == 4
    assert size(groups=groups, num_blocks=11, max_model_len=512, explicit=False).max_model_len == 80


def mixed_groups() -> tuple[KVGroup, ...]:
    """Gemma 3's kind: of 12 layers two keep everything, and the other ten a window of 64."""
    window = SlidingWindowSpec(num_kv_heads=8, head_size=128, dtype="bfloat16", window=64)
    full = KVGroup(spec=SPEC, layers=(5, 11), block_size=16)
    windows = (KVGroup(spec=window, layers=(first, first + 1), block_size=16) for first in (0, 2, 4, 7, 9))
    return (full, *windows)


def test_windows_take_the_blocks_of_a_window_and_a_step_whatever_the_length(caplog: pytest.LogCaptureFixture) -> None:
    groups = mixed_groups()
    most = 63 + 5 * ((63 + STEP - 2) // 16 + 2)
    assert size(groups=groups, num_blocks=most, max_model_len=1008).max_model_len == 1008
    with pytest.raises(ConfigurationError, match="max_model_len 1,008 needs"):
        size(groups=groups, num_blocks=377, max_model_len=1008)
    pool = size(groups=groups, num_blocks=2000, max_model_len=4096)
    with caplog.at_level(logging.INFO):
        log_pool(groups, pool, max_step_tokens=64)
    blocks_of_one, blocks_of_others = 256 + 5 * 9, 256 + 5 * 5
    concurrency = 1 + (2000 - blocks_of_one) / blocks_of_others
    assert caplog.messages == [
        f"KV cache size: {int(concurrency * 4096):,} tokens",
        f"Maximum concurrency for 4,096 tokens per request: {concurrency:.2f}x",
    ]


ledgers = st.builds(
    MemoryLedger,
    total=st.integers(1 << 33, 1 << 40),
    available=st.integers(0, 1 << 40),
    weights=st.integers(0, 1 << 34),
    activations=st.integers(0, 1 << 32),
    reserve=st.integers(0, 1 << 30),
)
shares = st.none() | st.floats(0.01, 1.0)


def blocks_or_none(ledger: MemoryLedger, **more: Any) -> int:
    """Blocks of the pool, 0 where nothing fits."""
    try:
        return size(ledger=ledger, explicit=False, **more).num_blocks
    except ConfigurationError:
        return 0


@given(ledgers, shares, st.booleans())
def test_blocks_never_exceed_the_budget(ledger: MemoryLedger, share: float | None, on_cpu: bool) -> None:
    num_blocks = blocks_or_none(ledger, memory_utilization=share, on_cpu=on_cpu)
    assert num_blocks * BLOCK <= ledger.available
    if share is not None and num_blocks:
        assert num_blocks * BLOCK + ledger.weights + ledger.activations + ledger.reserve <= ledger.total * share


@given(ledgers, st.integers(0, 1 << 40), shares, st.booleans())
def test_more_memory_never_gives_fewer_blocks(ledger: MemoryLedger, extra: int, share: float | None, on_cpu: bool) -> None:
    larger = MemoryLedger(
        total=ledger.total + extra,
        available=ledger.available + extra,
        weights=ledger.weights,
        activations=ledger.activations,
        reserve=ledger.reserve,
    )
    more = {"memory_utilization": share, "on_cpu": on_cpu}
    assert blocks_or_none(ledger, **more) <= blocks_or_none(larger, **more)


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_the_longest_request_that_fits_fits_and_the_next_does_not(num_blocks: int, max_model_len: int) -> None:
    pool = size(num_blocks=num_blocks, max_model_len=max_model_len, explicit=False)
    assert blocks_per_request(GROUPS, pool.max_model_len, max_step_tokens=STEP) <= num_blocks
    if pool.max_model_len < max_model_len:
        assert blocks_per_request(GROUPS, pool.max_model_len + 1, max_step_tokens=STEP) > num_blocks
