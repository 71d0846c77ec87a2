"""The C interface of the library, mirrored from `csrc/abi.h`; strides are in elements."""

import ctypes
from ctypes import c_float, c_int32, c_int64, c_void_p

import torch

ABI_VERSION = 1
TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""The element types that the library knows, with their numbers."""


class Cache(ctypes.Structure):
    """`OctavoCache`."""

    _fields_ = (
        ("data", c_void_p),
        ("block_stride", c_int64),
        ("value_offset", c_int64),
        ("head_stride", c_int64),
        ("num_blocks", c_int32),
        ("num_kv_heads", c_int32),
        ("block_size", c_int32),
        ("head_size", c_int32),
    )


class PagedDecode(ctypes.Structure):
    """`OctavoPagedDecode`."""

    _fields_ = (
        ("cache", Cache),
        ("query", c_void_p),
        ("query_row_stride", c_int64),
        ("query_head_stride", c_int64),
        ("out", c_void_p),
        ("out_row_stride", c_int64),
        ("out_head_stride", c_int64),
        ("rows", c_void_p),
        ("block_table", c_void_p),
        ("block_table_stride", c_int64),
        ("lengths", c_void_p),
        ("num_rows", c_int32),
        ("num_heads", c_int32),
        ("window", c_int32),
        ("scale", c_float),
        ("type", c_int32),
        ("isa", c_int32),
        ("num_threads", c_int32),
    )


class StoreKv(ctypes.Structure):
    """`OctavoStoreKv`."""

    _fields_ = (
        ("cache", Cache),
        ("key", c_void_p),
        ("key_row_stride", c_int64),
        ("key_head_stride", c_int64),
        ("value", c_void_p),
        ("value_row_stride", c_int64),
        ("value_head_stride", c_int64),
        ("slots", c_void_p),
        ("num_rows", c_int32),
        ("type", c_int32),
        ("num_threads", c_int32),
    )


def describe_cache(cache: torch.Tensor) -> Cache:
    """A layer's cache [B, 2, G, S, D] for the library; [S, D] of one head must be contiguous."""
    num_blocks, two, num_kv_heads, block_size, head_size = cache.shape
    block_stride, value_offset, head_stride, token_stride, element_stride = cache.stride()
    assert two == 2
    assert element_stride == 1
    assert token_stride == head_size or block_size == 1
    return Cache(cache.data_ptr(), block_stride, value_offset, head_stride, num_blocks, num_kv_heads, block_size, head_size)


def check_status(status: int, operation: str) -> None:
    """Raise what a status other than success stands for."""
    if status == 0:
        return
    if status == 2:
        raise IndexError(f"{operation}: a block or slot lies outside the cache")
    if status == 3:
        raise MemoryError(f"{operation}: no memory for intermediate results")
    raise AssertionError(f"{operation}: the library refused its arguments (status {status})")
