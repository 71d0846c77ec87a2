"""The ledger: what memory there is, what weights and activations take, and how many KV blocks the rest holds.

The null block comes on top of every number here, so that `num_blocks` blocks can really be handed out.
"""

import logging
from dataclasses import dataclass

from octavo.cache.capacity import blocks_per_request, max_concurrency, pool_tokens
from octavo.cache.spec import KVGroup
from octavo.config.cache import CacheConfig
from octavo.config.units import format_bytes
from octavo.engine.runner import PoolSize
from octavo.errors import ConfigurationError

GPU_MEMORY_UTILIZATION = 0.9
"""Share of a GPU's memory that everything together takes where the user does not say."""

CPU_MEMORY_SHARE = 0.5
"""Share of the available memory that the pool takes on a CPU where the user does not say: others live there too."""

GPU_RESERVE = 256 << 20
"""Bytes kept free on a GPU for what libraries take without asking."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MemoryLedger:
    """Memory of the device that holds the KV pool, in bytes.

    Attributes:
        total: of the device, within every limit.
        available: that can be taken now, with the weights loaded.
        weights: taken by the weights.
        activations: taken at the peak of the largest step.
        graphs: taken by captured graphs.
        reserve: kept free, for what libraries take.
    """

    total: int
    available: int
    weights: int = 0
    activations: int = 0
    graphs: int = 0
    reserve: int = 0


def size_pool(
    *,
    groups: tuple[KVGroup, ...],
    cache: CacheConfig,
    max_model_len: int,
    max_model_len_is_explicit: bool,
    max_num_seqs: int,
    max_step_tokens: int,
    ledger: MemoryLedger,
    on_cpu: bool,
) -> PoolSize:
    """How large the KV pool becomes, and whether one request of `max_model_len` tokens fits.

    The first that is given decides: `num_blocks`, `memory_bytes`, `memory_utilization` (of the total, less weights, activations,
    graphs and reserve, and no more than is available). Without any, a GPU is filled up to `GPU_MEMORY_UTILIZATION`, and a CPU gives
    `CPU_MEMORY_SHARE` of what is available but no more than `max_num_seqs` requests of `max_model_len` tokens can fill.

    Args:
        groups: of layers, whose blocks take the same bytes each and come from the one pool.
        cache: the user's wishes.
        max_model_len: longest prompt plus output, in tokens.
        max_model_len_is_explicit: whether a user asked for that length; else it is reduced, with a warning, to what fits.
        max_num_seqs: requests that run at once.
        max_step_tokens: tokens of one request that a step runs at most.
        ledger: memory of the device.
        on_cpu: whether the device is the CPU.

    Raises:
        ConfigurationError: not one block fits, a request of the explicit length does not, or the pool is larger than the device.
    """
    bytes_per_block = _bytes_per_block(groups)
    full_length = blocks_per_request(groups, max_model_len, max_step_tokens=max_step_tokens)
    num_blocks = cache.num_blocks
    if num_blocks is None:
        num_blocks = _pool_bytes(cache, ledger, on_cpu=on_cpu) // bytes_per_block
        if on_cpu and cache.memory_bytes is None and cache.memory_utilization is None:
            num_blocks = min(num_blocks, max_num_seqs * full_length)
    if num_blocks * bytes_per_block > ledger.total:
        raise ConfigurationError(_larger_than_memory(num_blocks, bytes_per_block, ledger))
    longest = pool_tokens(groups, num_blocks, max_step_tokens=max_step_tokens)
    if longest < 1:
        raise ConfigurationError(_nothing_fits(groups, num_blocks, ledger))
    if longest < max_model_len:
        problem = (
            f"max_model_len {max_model_len:,} needs {format_bytes(full_length * bytes_per_block)} of KV cache "
            f"({full_length:,} blocks) and {format_bytes(num_blocks * bytes_per_block)} ({num_blocks:,} blocks) are available"
        )
        if max_model_len_is_explicit:
            raise ConfigurationError(f"{problem}: give max_model_len {longest} or less, or a larger kv_cache_memory_bytes or num_blocks")
        _log.warning("%s: max_model_len is reduced to %s", problem, f"{longest:,}")
    return PoolSize(num_blocks=num_blocks, max_model_len=min(max_model_len, longest), num_bytes=(num_blocks + 1) * bytes_per_block)


def pool_capacity(groups: tuple[KVGroup, ...], pool: PoolSize, *, max_step_tokens: int) -> tuple[int, float]:
    """How many tokens the pool holds, and how many requests of full length at once.

    Where layers forget, the pool holds more tokens of long requests than of short ones: those of requests of full length are counted.
    """
    concurrency = max_concurrency(groups, pool.num_blocks, pool.max_model_len, max_step_tokens=max_step_tokens)
    if any(group.spec.window is not None for group in groups):
        return int(concurrency * pool.max_model_len), concurrency
    return pool_tokens(groups, pool.num_blocks, max_step_tokens=max_step_tokens), concurrency


def log_pool(groups: tuple[KVGroup, ...], pool: PoolSize, *, max_step_tokens: int) -> None:
    """Log the two numbers that say what the engine can carry."""
    tokens, concurrency = pool_capacity(groups, pool, max_step_tokens=max_step_tokens)
    _log.info("KV cache size: %s tokens", f"{tokens:,}")
    _log.info("Maximum concurrency for %s tokens per request: %.2fx", f"{pool.max_model_len:,}", concurrency)


def _pool_bytes(cache: CacheConfig, ledger: MemoryLedger, *, on_cpu: bool) -> int:
    """Budget of the pool in bytes; negative where nothing is left."""
    if cache.memory_bytes is not None:
        return cache.memory_bytes
    if on_cpu and cache.memory_utilization is None:
        return int(ledger.available * CPU_MEMORY_SHARE)
    utilization = GPU_MEMORY_UTILIZATION if cache.memory_utilization is None else cache.memory_utilization
    rest = int(ledger.total * utilization) - ledger.weights - ledger.activations - ledger.graphs - ledger.reserve
    return min(rest, ledger.available)


def _larger_than_memory(num_blocks: int, bytes_per_block: int, ledger: MemoryLedger) -> str:
    room = max(0, ledger.available) // bytes_per_block
    return (
        f"a KV pool of {num_blocks:,} blocks takes {format_bytes(num_blocks * bytes_per_block)}, and the device has "
        f"{format_bytes(ledger.total)} ({format_bytes(ledger.available)} available): give num_blocks {room} or less, or "
        "a smaller kv_cache_memory_bytes"
    )


def _nothing_fits(groups: tuple[KVGroup, ...], num_blocks: int, ledger: MemoryLedger) -> str:
    needed = len(groups) * _bytes_per_block(groups)
    return (
        f"no memory for the KV cache: one block of {_block_size(groups)} tokens takes {format_bytes(needed)} and "
        f"{format_bytes(max(num_blocks, 0) * _bytes_per_block(groups))} are left of {format_bytes(ledger.total)} "
        f"({format_bytes(ledger.available)} available, weights {format_bytes(ledger.weights)}, "
        f"activations {format_bytes(ledger.activations)}): raise memory_utilization or kv_cache_memory_bytes, or free memory"
    )


def _bytes_per_block(groups: tuple[KVGroup, ...]) -> int:
    sizes = {group.bytes_per_block for group in groups}
    assert len(sizes) == 1, f"groups of one pool have blocks of one size, not {sizes}"
    return sizes.pop()


def _block_size(groups: tuple[KVGroup, ...]) -> int:
    sizes = {group.block_size for group in groups}
    assert len(sizes) == 1, f"groups of one pool have blocks of one length, not {sizes}"
    return sizes.pop()
