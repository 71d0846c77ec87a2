"""Which tensors the C++ library computes on."""

import ctypes
import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from octavo_kernels.cpu.abi import TYPES
from octavo_kernels.cpu.isa import Isa, choose_isa
from octavo_kernels.cpu.library import find_library, load_library, open_library


@dataclass
class Native:
    """The library, and the instruction set that ops of this process run on unless they are given another."""

    library: ctypes.CDLL
    isa: Isa


def is_installed() -> bool:
    """Whether the library is there and fits; says nothing where it is not, since a GPU does without."""
    path = find_library()
    return path is not None and open_library(path) is not None


INSTALLED = is_installed()
"""Read when this is imported, so that it is a constant to compilers."""


@functools.cache
def load_native() -> Native | None:
    """None where the library is not installed."""
    library = load_library()
    return None if library is None else Native(library, choose_isa(library))


def use_isa(requested: str | None) -> Isa:
    """Have ops run on an instruction set from now on: one by its name in lower case, or the fastest. The library must be there.

    Raises ValueError if this host lacks it.
    """
    native = load_native()
    assert native is not None, "what is not installed has no instruction set"
    native.isa = choose_isa(native.library, requested)
    return native.isa


def takes(first: Tensor, *others: Tensor) -> bool:
    """Whether the library computes on these tensors: on a CPU, and all of one type that it knows."""
    if not first.is_cpu or first.dtype not in TYPES or any(other.dtype != first.dtype for other in others):
        return False
    return INSTALLED


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor has memory to point at: not while a compiler traces, and no fake or other subclass."""
    return not torch.compiler.is_compiling() and type(tensor) in {Tensor, torch.nn.Parameter}
