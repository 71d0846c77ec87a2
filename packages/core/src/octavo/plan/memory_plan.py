"""How a device's memory will be shared out, worked out by the functions that the engine itself sizes its pool with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from octavo.cache.capacity import blocks_per_request, max_concurrency
from octavo.cache.spec import DTYPE_BYTES, KVGroup, kv_groups
from octavo.config.engine import EngineConfig
from octavo.config.units import format_bytes
from octavo.errors import ConfigurationError
from octavo.memory import GPU_RESERVE, MemoryLedger, pool_capacity, size_pool
from octavo.model.config import ModelConfig
from octavo.plan.estimates import activation_bytes, num_parameters


@dataclass(frozen=True, kw_only=True)
class DeviceMemory:
    """Memory of one device before anything is loaded, in bytes; on a CPU the pool leaves room for others."""

    total: int
    available: int
    on_cpu: bool


@dataclass(frozen=True, kw_only=True)
class RequestPlan:
    """What requests of one length take.

    Attributes:
        tokens: prompt and output.
        blocks: that one holds while it generates.
        kv_bytes: of these blocks.
        requests: that the pool carries at once.
        fits_context: whether `tokens` are within the plan's `max_model_len`.
    """

    tokens: int
    blocks: int
    kv_bytes: int
    requests: int
    fits_context: bool


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """What one rank will hold.

    Attributes:
        parameters: of the whole model.
        dtype: of weights and activations.
        weight_bytes: of the rank's share.
        activation_bytes: at the peak of the largest step.
        kv_cache_dtype: of the KV cache.
        bytes_per_token: KV of one token in all layers.
        bytes_per_token_beyond_windows: KV that each further token adds once every window is full.
        block_size, bytes_per_block, num_blocks: of the pool, without the null block.
        kv_cache_bytes: of the pool, with the null block.
        kv_cache_tokens, max_concurrency, max_model_len: what the engine logs when it starts.
        tensor_parallel_size: ranks that share the model.
        requests: what requests of some lengths take.
    """

    parameters: int
    dtype: str
    weight_bytes: int
    activation_bytes: int
    kv_cache_dtype: str
    bytes_per_token: int
    bytes_per_token_beyond_windows: int
    block_size: int
    bytes_per_block: int
    num_blocks: int
    kv_cache_bytes: int
    kv_cache_tokens: int
    max_concurrency: float
    max_model_len: int
    tensor_parallel_size: int
    requests: tuple[RequestPlan, ...]


def plan_memory(config: EngineConfig, device: DeviceMemory, *, tokens: Sequence[int], tensor_parallel_size: int = 1) -> MemoryPlan:
    """Work out what the engine of a configuration will hold on each device.

    Args:
        config: as resolved for the engine; its KV cache may also be "fp8".
        device: that each rank has.
        tokens: lengths of requests to plan for.
        tensor_parallel_size: ranks that share the model, each with its part of the heads.

    Raises:
        ConfigurationError: the weights, one block or a request of the wanted length do not fit, or the ranks cannot share the heads.
    """
    parameters = num_parameters(config.model)
    model, scheduler = _part_of_rank(config.model, tensor_parallel_size), config.scheduler
    groups = kv_groups(model, block_size=config.cache.block_size, dtype=config.cache.dtype)
    element_bytes = DTYPE_BYTES[config.load.dtype]
    ledger = _ledger(
        device,
        weights=-(-parameters // tensor_parallel_size) * element_bytes,
        activations=activation_bytes(
            model, max_tokens=scheduler.max_num_batched_tokens, max_requests=scheduler.max_num_seqs, element_bytes=element_bytes
        ),
        is_measured=config.cache.num_blocks is None and config.cache.memory_bytes is None,
    )
    pool = size_pool(
        groups=groups,
        cache=config.cache,
        max_model_len=config.load.max_model_len,
        max_model_len_is_explicit=config.load.max_model_len_is_explicit,
        max_num_seqs=scheduler.max_num_seqs,
        max_step_tokens=scheduler.max_chunk,
        ledger=ledger,
        on_cpu=device.on_cpu,
    )
    kv_cache_tokens, concurrency = pool_capacity(groups, pool, max_step_tokens=scheduler.max_chunk)
    return MemoryPlan(
        parameters=parameters,
        dtype=config.load.dtype,
        weight_bytes=ledger.weights,
        activation_bytes=ledger.activations,
        kv_cache_dtype=config.cache.dtype,
        bytes_per_token=sum(group.bytes_per_token for group in groups),
        bytes_per_token_beyond_windows=sum(group.bytes_per_token for group in groups if group.spec.window is None),
        block_size=config.cache.block_size,
        bytes_per_block=groups[0].bytes_per_block,
        num_blocks=pool.num_blocks,
        kv_cache_bytes=pool.num_bytes,
        kv_cache_tokens=kv_cache_tokens,
        max_concurrency=concurrency,
        max_model_len=pool.max_model_len,
        tensor_parallel_size=tensor_parallel_size,
        requests=tuple(
            _plan_requests(groups, pool.num_blocks, count, max_step_tokens=scheduler.max_chunk, max_model_len=pool.max_model_len)
            for count in tokens
        ),
    )


def _part_of_rank(model: ModelConfig, size: int) -> ModelConfig:
    """The shape of what one rank computes of attention; KV heads that are fewer than the ranks are held by several."""
    heads, kv_heads = model.num_heads, model.num_kv_heads
    if heads % size or (kv_heads % size and size % kv_heads):
        raise ConfigurationError(
            f"tensor_parallel_size {size} cannot share {heads} query heads and {kv_heads} KV heads: give a number that divides them"
        )
    return replace(model, num_heads=heads // size, num_kv_heads=max(1, kv_heads // size))


def _ledger(device: DeviceMemory, *, weights: int, activations: int, is_measured: bool) -> MemoryLedger:
    available = device.available - weights
    if is_measured and available <= 0:
        raise ConfigurationError(
            f"the weights take {format_bytes(weights)} and {format_bytes(device.available)} are available: "
            "plan with more memory, a smaller dtype or a larger tensor_parallel_size"
        )
    return MemoryLedger(
        total=device.total, available=available, weights=weights, activations=activations, reserve=0 if device.on_cpu else GPU_RESERVE
    )


def _plan_requests(groups: tuple[KVGroup, ...], num_blocks: int, tokens: int, *, max_step_tokens: int, max_model_len: int) -> RequestPlan:
    blocks = blocks_per_request(groups, tokens, max_step_tokens=1)
    return RequestPlan(
        tokens=tokens,
        blocks=blocks,
        kv_bytes=blocks * groups[0].bytes_per_block,
        requests=int(max_concurrency(groups, num_blocks, tokens, max_step_tokens=max_step_tokens)),
        fits_context=tokens <= max_model_len,
    )
