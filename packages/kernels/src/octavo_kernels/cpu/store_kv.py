"""Writing keys and values to the paged cache, in C++."""

import ctypes

import torch
from torch import Tensor

from octavo_kernels.cpu.abi import TYPES, StoreKv, check_status, describe_cache


def store_kv(library: ctypes.CDLL, key: Tensor, value: Tensor, cache: Tensor, slots: Tensor) -> None:
    """Write row i to slot `slots[i]`, `block * S + offset`; -1 writes nothing.

    Args:
        library: from `load_library`.
        key, value: [N, G, D], the last dimension contiguous; of the cache's type.
        cache: [B, 2, G, S, D], keys first, strided over its blocks; written in place.
        slots: int64 [N], contiguous; distinct where not -1. Raises IndexError if one lies outside the cache.
    """
    assert key.shape == value.shape
    assert key.dtype == value.dtype == cache.dtype
    assert key.stride(2) == 1
    assert value.stride(2) == 1
    assert slots.dtype == torch.int64
    assert slots.is_contiguous()
    task = StoreKv(
        describe_cache(cache),
        key.data_ptr(),
        key.stride(0),
        key.stride(1),
        value.data_ptr(),
        value.stride(0),
        value.stride(1),
        slots.data_ptr(),
        slots.shape[0],
        TYPES[key.dtype],
        torch.get_num_threads(),
    )
    check_status(library.octavo_store_kv(ctypes.byref(task)), "store_kv")
