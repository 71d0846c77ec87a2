"""Attention over a paged cache for rows that stand alone, in C++."""

import ctypes

import torch
from torch import Tensor

from octavo_kernels.cpu.abi import TYPES, PagedDecode, check_status, describe_cache
from octavo_kernels.cpu.isa import Isa

MAX_HEAD_SIZE = 256


def paged_decode(
    library: ctypes.CDLL,
    query: Tensor,
    cache: Tensor,
    out: Tensor,
    *,
    rows: Tensor,
    block_table: Tensor,
    lengths: Tensor,
    scale: float,
    window: int | None,
    isa: Isa,
) -> None:
    """Attend R single rows, row i the last token of a sequence of `lengths[i]` tokens: softmax(scale * q k^T) v in float32.

    The order of a row's sums depends on its own length alone, not on the other rows, the number of threads or block ids.

    Args:
        library: from `load_library`.
        query: [N, H, D], the last dimension contiguous; D a multiple of 8.
        cache: [B, 2, G, S, D], keys first, strided over its blocks; of query's type.
        out: [N, H, D], the last dimension contiguous; the rows in `rows` are written.
        rows: int64 [R], where the rows stand in `query` and `out`.
        block_table: int32 [R, T], contiguous.
        lengths: int32 [R], contiguous; each at least 1. Raises IndexError where a block that is needed does not exist.
        scale: of the scores.
        window: tokens a row sees, itself included; None is all.
        isa: one that this host runs.
    """
    assert query.dtype == cache.dtype == out.dtype
    assert query.stride(2) == 1
    assert out.stride(2) == 1
    assert rows.dtype == torch.int64
    assert block_table.dtype == lengths.dtype == torch.int32
    assert rows.is_contiguous()
    assert block_table.is_contiguous()
    assert lengths.is_contiguous()
    task = PagedDecode(
        describe_cache(cache),
        query.data_ptr(),
        query.stride(0),
        query.stride(1),
        out.data_ptr(),
        out.stride(0),
        out.stride(1),
        rows.data_ptr(),
        block_table.data_ptr(),
        block_table.shape[1],
        lengths.data_ptr(),
        rows.shape[0],
        query.shape[1],
        window or 0,
        scale,
        TYPES[query.dtype],
        isa,
        torch.get_num_threads(),
    )
    check_status(library.octavo_paged_decode(ctypes.byref(task)), "paged_decode")
