"""The memory of the KV pool."""

import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class KVPool:
    """The caches of each layer of each KV group, [B, *page_shape], strided views of one allocation."""

    caches: list[list[Tensor]]

    def make_finite(self, block_ids: Sequence[NDArray[np.int32]]) -> None:
        """Turn NaN and infinities in some blocks of each group into zeros.

        A block goes on to others, who may read past the end of their sequence with a weight of 0: 0 * NaN would still be NaN.
        """
        for layers, ids in zip(self.caches, block_ids, strict=True):
            index = torch.from_numpy(ids.astype(np.int64)).to(layers[0].device)
            for cache in layers:
                cache[index] = cache[index].nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


def allocate_pool(*, num_blocks: int, page_shapes: Sequence[Sequence[tuple[int, ...]]], dtype: torch.dtype, device: torch.device) -> KVPool:
    """One allocation of zeros for all groups; a block is one run of bytes, whichever group it belongs to.

    On a CPU the memory is an untouched anonymous mapping: the system provides it, zeroed, as blocks are first written, so that resident
    memory grows with use.

    Args:
        num_blocks: B, the null block included.
        page_shapes: shape of one layer's part of a block, of each layer of each group.
        dtype, device: of the cache.
    """
    block_elements = {sum(map(prod, shapes)) for shapes in page_shapes}
    assert len(block_elements) == 1, f"blocks of all groups have one size, not {block_elements}"
    (elements,) = block_elements
    size = num_blocks * elements
    pool = _untouched(size, dtype) if device.type == "cpu" else torch.zeros(size, dtype=dtype, device=device)
    return KVPool([_layer_views(pool.view(num_blocks, elements), shapes) for shapes in page_shapes])


def _layer_views(pool: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """Split blocks [B, elements] into the parts of the layers, side by side."""
    parts = torch.split(pool, [prod(shape) for shape in shapes], dim=1)
    return [torch.unflatten(part, 1, shape) for part, shape in zip(parts, shapes, strict=True)]


def _untouched(size: int, dtype: torch.dtype) -> Tensor:
    """Zeros that take no memory before they are written; the mapping goes when the last tensor on it does."""
    if hasattr(mmap, "MAP_PRIVATE"):
        memory = mmap.mmap(-1, size * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    else:
        memory = mmap.mmap(-1, size * dtype.itemsize)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Attention reads blocks all over the pool: large pages spare it most of the address translation. A kernel may lack them.
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype)
