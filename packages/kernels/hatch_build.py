"""Build hook of the wheel: compiles `csrc/` into one shared library that lies beside the package.

The library is made on Linux x86-64 with `$CXX`, `g++` or `c++`. Elsewhere, and without a compiler, the wheel is pure
Python; what the library would have served falls back to torch. A compile error fails the build.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGET = "octavo_kernels_native/liboctavo_kernels.so"
FLAGS = [
    *("-O3", "-std=c++17", "-fPIC", "-pthread", "-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    *("-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-fno-trapping-math"),
]
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
# By the end of a file's stem; everything else is built for any x86-64, so that the library loads everywhere.
ISA_FLAGS = {"_avx2": AVX2, "_avx512": AVX512, "_avx512_bf16": [*AVX512, "-mavx512bf16"], "_avx512_fp16": AVX512, "_amx": AVX512}
# Added where the compiler knows them; the files do without.
OPTIONAL_ISA_FLAGS = {"_avx512_fp16": ["-mavx512fp16"], "_amx": ["-mamx-tile", "-mamx-bf16"]}


class NativeLibraryHook(BuildHookInterface[Any]):
    """Adds the library and the wheel's platform tag where it can be built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._folder: str | None = None
        if sys.platform != "linux" or platform.machine() != "x86_64":
            return
        compiler = find_compiler()
        if compiler is None:
            return
        self._folder = tempfile.mkdtemp(prefix="octavo-kernels-")
        library = build_library(compiler, Path(self.root) / "csrc", Path(self._folder))
        build_data["force_include"][str(library)] = TARGET
        if version == "editable":
            build_data["force_include_editable"][str(library)] = TARGET
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if self._folder is not None:
            shutil.rmtree(self._folder)


def find_compiler() -> list[str] | None:
    """The compiler's command line, or None where there is no compiler. `$CXX` must exist if it is set."""
    if named := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(named[0]) is None:
            raise RuntimeError(f"CXX names {named[0]!r}, which is not found: correct it, or unset it to use g++ or c++")
        return named
    return next(([found] for name in ("g++", "c++") if (found := shutil.which(name))), None)


def build_library(compiler: list[str], sources: Path, folder: Path) -> Path:
    """Compile every file of `sources` into `folder` and link them; returns the library."""

    isa_flags = {suffix: flags + optional_flags(compiler, suffix) for suffix, flags in ISA_FLAGS.items()}

    def compile_one(source: Path) -> str:
        isa = next((flags for suffix, flags in isa_flags.items() if source.stem.endswith(suffix)), [])
        target = folder / f"{source.stem}.o"
        run([*compiler, *FLAGS, *isa, "-c", str(source), "-o", str(target)])
        return str(target)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sorted(sources.glob("*.cpp"))))
    library = folder / Path(TARGET).name
    run([*compiler, "-shared", "-pthread", *objects, "-o", str(library)])
    return library


def optional_flags(compiler: list[str], suffix: str) -> list[str]:
    """What `OPTIONAL_ISA_FLAGS` has for files of a suffix, or nothing where the compiler refuses it."""
    flags = OPTIONAL_ISA_FLAGS.get(suffix, [])
    done = subprocess.run(  # noqa: S603
        [*compiler, *flags, "-E", "-x", "c++", os.devnull], capture_output=True, check=False
    )
    return flags if done.returncode == 0 else []


def run(command: list[str]) -> None:
    """Run a command; what it said is the error where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise RuntimeError(f"building the C++ library failed: {shlex.join(command)}\n{done.stderr}")
