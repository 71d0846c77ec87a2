"""Memory for weights that are read over and over."""

import ctypes
from collections.abc import Iterable

import torch
from torch import Tensor

_LARGE_PAGE = 2 << 20
_ALIGNMENT = 64


class LargePages:
    """One piece of memory that tensors are cut from, on large pages where the system has them: fewer walks of the page table, and
    fetching ahead does not stop at every 4 KiB. Nothing is touched before it is used.

    Args:
        library: from `load_library`.
        sizes: bytes of all tensors that will be taken.
    """

    def __init__(self, library: ctypes.CDLL, sizes: Iterable[int]) -> None:
        num_bytes = sum(map(_rounded, sizes))
        memory = torch.empty(num_bytes + _LARGE_PAGE, dtype=torch.uint8)
        start = -memory.data_ptr() % _LARGE_PAGE
        self._memory = memory[start : start + num_bytes]
        self._taken = 0
        library.octavo_advise_large_pages(self._memory.data_ptr(), num_bytes)

    @property
    def is_used_up(self) -> bool:
        """Whether all of it was taken."""
        return self._taken == len(self._memory)

    def take(self, num_bytes: int) -> Tensor:
        """uint8 [num_bytes] without content, aligned for any instruction."""
        assert self._taken + _rounded(num_bytes) <= len(self._memory), "more is taken than was asked for"
        tensor = self._memory[self._taken : self._taken + num_bytes]
        self._taken += _rounded(num_bytes)
        return tensor


def _rounded(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
