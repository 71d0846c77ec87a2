"""Instruction sets that the C++ kernels are built for, and which of them this host runs."""

import ctypes
from enum import IntEnum


class Isa(IntEnum):
    """Numbered as in `csrc/abi.h`."""

    PORTABLE = 0
    AVX2 = 1
    AVX512 = 2
    AVX512_BF16 = 3
    AVX512_FP16 = 4
    AMX = 5


def supported_isas(library: ctypes.CDLL) -> tuple[Isa, ...]:
    """What this host runs, in ascending order; never empty."""
    bits = library.octavo_supported_isas()
    return tuple(isa for isa in Isa if bits >> isa & 1)


def choose_isa(library: ctypes.CDLL, requested: str | None = None) -> Isa:
    """The fastest instruction set, or the requested one by its name in lower case. Raises ValueError if this host lacks it."""
    if requested is None:
        return Isa(library.octavo_preferred_isa())
    supported = supported_isas(library)
    chosen = next((isa for isa in supported if isa.name.lower() == requested), None)
    if chosen is None:
        names = ", ".join(isa.name.lower() for isa in supported)
        raise ValueError(f"this host does not run the instruction set {requested!r}; it runs {names}")
    return chosen
