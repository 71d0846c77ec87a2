"""Finds and loads the C++ library that was built with the package."""

import ctypes
import functools
import importlib.util
import logging
from pathlib import Path

from octavo_kernels.cpu.abi import ABI_VERSION, FUNCTIONS, Packing

PACKAGE = "octavo_kernels_native"
FILE = "liboctavo_kernels.so"
REMEDY = "run `uv sync --reinstall-package octavo-kernels` where a C++ compiler is installed"

logger = logging.getLogger(__name__)


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """The library with its functions typed, or None, with one warning a process, where there is none that fits."""
    path = find_library()
    if path is None:
        logger.warning("The C++ kernels are not installed, so slower torch ones serve: %s", REMEDY)
        return None
    library = open_library(path)
    if library is None:
        logger.warning("The C++ kernels in %s are of another version, so slower torch ones serve: %s", path, REMEDY)
    return library


def find_library(package: str = PACKAGE) -> Path | None:
    """Where the library lies, or None. It has a folder of its own, which an editable installation fills too."""
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations if spec is not None else None) or ()
    return next((path for folder in folders if (path := Path(folder) / FILE).is_file()), None)


def open_library(path: Path, version: int = ABI_VERSION) -> ctypes.CDLL | None:
    """Load a library and type its functions; None if it speaks another version of the interface. Raises OSError if it does not load."""
    library = ctypes.CDLL(str(path))
    library.octavo_abi_version.argtypes = []
    library.octavo_abi_version.restype = ctypes.c_int32
    if library.octavo_abi_version() != version:
        return None
    library.octavo_supported_isas.argtypes = []
    library.octavo_supported_isas.restype = ctypes.c_uint32
    library.octavo_preferred_isa.argtypes = []
    library.octavo_preferred_isa.restype = ctypes.c_int32
    library.octavo_packed_bytes.argtypes = [ctypes.POINTER(Packing)]
    library.octavo_packed_bytes.restype = ctypes.c_int64
    library.octavo_advise_large_pages.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.octavo_advise_large_pages.restype = None
    for name, structure in FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = [ctypes.POINTER(structure)]
        function.restype = ctypes.c_int32
    return library
