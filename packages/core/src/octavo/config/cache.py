"""The KV cache's part of the configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """How KV memory is cut and how much there is.

    Attributes:
        block_size: tokens a block, a multiple of 8.
        dtype: float32, bfloat16 or float16.
        num_blocks: fixed by the user, the null block not counted; None: by memory.
        memory_bytes: size of the pool fixed by the user; None: by `memory_utilization` or the device's rule.
        memory_utilization: share of the device's memory that everything together may take; None: the device's rule.
        enable_prefix_caching: share blocks of equal prefixes.
    """

    block_size: int
    dtype: str
    num_blocks: int | None
    memory_bytes: int | None
    memory_utilization: float | None
    enable_prefix_caching: bool
