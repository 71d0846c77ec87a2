"""The plain layout of a layer's pages, [B, 2, G, S, D] with keys first, and how a block table is read from it."""

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionSpec


def plain_page_shape(spec: AttentionSpec, block_size: int) -> tuple[int, ...]:
    """[2, G, S, D]: keys, then values."""
    return (2, spec.num_kv_heads, block_size, spec.head_size)


def first_visible_key(position: int, window: int | None) -> int:
    """The first key that the query at a position sees."""
    return 0 if window is None else max(0, position - window + 1)


def gather_pages(cache: Tensor, pages: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of some runs of pages.

    Args:
        cache: [B, 2, G, S, D].
        pages: int64 [R, T].

    Returns:
        Both [R, G, T * S, D], contiguous.
    """
    num_runs, run_length = pages.shape
    _, _, num_kv_heads, block_size, head_size = cache.shape
    gathered = cache.index_select(0, pages.flatten()).view(num_runs, run_length, 2, num_kv_heads, block_size, head_size)
    shape = (2, num_runs, num_kv_heads, run_length * block_size, head_size)
    keys, values = gathered.permute(2, 0, 3, 1, 4, 5).reshape(shape)
    return keys, values


def additive_mask(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a key is seen and -inf where it is not."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, float("-inf"))
