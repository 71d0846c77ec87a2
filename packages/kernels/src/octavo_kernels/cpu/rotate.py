"""Rotary position embedding in C++."""

import ctypes

import torch
from torch import Tensor

from octavo_kernels.cpu.abi import TYPES, Rotation, describe_heads
from octavo_kernels.cpu.calls import submit
from octavo_kernels.cpu.isa import Isa


def rotate(
    library: ctypes.CDLL,
    query: Tensor,
    key: Tensor,
    positions: Tensor,
    table: Tensor,
    query_out: Tensor,
    key_out: Tensor,
    *,
    isa: Isa,
) -> None:
    """Turn each pair (i, i + D' / 2) of the first D' dimensions by the angle of the row's position, in float32.

    Args:
        library: from `load_library`.
        query, key: [N, H, D] and [N, G, D], the last dimension contiguous.
        positions: int64 [N], contiguous. Raises IndexError where the table has no such row.
        table: float32 [P, D'], contiguous, D' / 2 cosines and then D' / 2 sines of each position; D' <= D.
        query_out, key_out: of the shapes and type of query and key; may be these.
        isa: one that this host runs.
    """
    assert query.dtype == key.dtype == query_out.dtype == key_out.dtype
    assert query.shape == query_out.shape
    assert key.shape == key_out.shape
    assert query.shape[0] == key.shape[0] == positions.shape[0]
    assert query.shape[2] == key.shape[2]
    assert positions.dtype == torch.int64
    assert positions.is_contiguous()
    assert table.dtype == torch.float32
    assert table.is_contiguous()
    num_rows, num_heads, head_size = query.shape
    num_positions, rotary_size = table.shape
    task = Rotation(
        describe_heads(query),
        describe_heads(key),
        describe_heads(query_out),
        describe_heads(key_out),
        positions.data_ptr(),
        table.data_ptr(),
        num_positions,
        rotary_size,
        num_rows,
        num_heads,
        key.shape[1],
        head_size,
        TYPES[query.dtype],
        isa,
        torch.get_num_threads(),
    )
    submit(library.octavo_rotate, task, "rotate")
