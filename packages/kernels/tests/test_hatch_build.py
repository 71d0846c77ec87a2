"""The build hook on small sources; hatchling itself is there only while a wheel is built."""

import ctypes
import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Generic, TypeVar

import pytest

T = TypeVar("T")


class BuildHookInterface(Generic[T]):
    """As much of hatchling's as the hook uses."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)


@pytest.fixture
def hook(monkeypatch):
    parent = "hatchling"
    for name in ("hatchling", "builders", "hooks", "plugin", "interface"):
        parent = name if name == "hatchling" else f"{parent}.{name}"
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    sys.modules[parent].BuildHookInterface = BuildHookInterface
    spec = importlib.util.spec_from_file_location("kernels_hatch_build", Path(__file__).parents[1] / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delenv("CXX", raising=False)
    if sys.platform != "linux" or module.platform.machine() != "x86_64":
        pytest.skip("the library is built on Linux x86-64 only")
    return module


@pytest.fixture
def project(tmp_path):
    sources = tmp_path / "csrc"
    sources.mkdir()
    (sources / "answer.cpp").write_text('extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n')
    return tmp_path


def initialize(hook, project, version="standard"):
    data = {"force_include": {}, "force_include_editable": {}}
    built = hook.NativeLibraryHook(project)
    built.initialize(version, data)
    return SimpleNamespace(hook=built, data=data)


def needs_compiler():
    if shutil.which("g++") is None:
        pytest.skip("no g++")


@pytest.mark.parametrize("version", ["standard", "editable"])
def test_the_library_goes_into_the_wheel_and_its_tag_names_the_platform(hook, project, version):
    needs_compiler()
    built = initialize(hook, project, version)
    [(path, target)] = built.data["force_include"].items()
    assert target == "octavo_kernels_native/liboctavo_kernels.so"
    assert bool(built.data["force_include_editable"]) == (version == "editable")
    assert built.data["tag"] == "py3-none-linux_x86_64"
    assert ctypes.CDLL(path).answer() == 42
    built.hook.finalize(version, built.data, "")
    assert not Path(path).exists()
    assert [found.name for found in project.rglob("*") if found.is_file()] == ["answer.cpp"]


def test_a_compile_error_fails_the_build_with_what_the_compiler_said(hook, project):
    needs_compiler()
    (project / "csrc" / "broken.cpp").write_text("int broken( {\n")
    with pytest.raises(RuntimeError, match=r"broken\.cpp"):
        initialize(hook, project)


def test_without_a_compiler_the_wheel_is_pure(hook, project, monkeypatch):
    monkeypatch.setattr(hook.shutil, "which", lambda name: None)
    built = initialize(hook, project)
    assert built.data == {"force_include": {}, "force_include_editable": {}}
    built.hook.finalize("standard", built.data, "")


def test_elsewhere_the_wheel_is_pure(hook, project, monkeypatch):
    monkeypatch.setattr(hook.platform, "machine", lambda: "aarch64")
    assert initialize(hook, project).data == {"force_include": {}, "force_include_editable": {}}


def test_a_named_compiler_must_exist(hook, project, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    with pytest.raises(RuntimeError, match="CXX names 'no-such-compiler'"):
        initialize(hook, project)


def test_only_files_of_an_instruction_set_get_its_flags(hook, project, monkeypatch):
    commands = []
    monkeypatch.setattr(hook, "run", commands.append)
    for name in ("op.cpp", "op_avx2.cpp", "op_avx512.cpp", "op_avx512_bf16.cpp"):
        (project / "csrc" / name).touch()
    hook.build_library(["g++"], project / "csrc", project)
    flags = {Path(command[command.index("-c") + 1]).name: command for command in commands if "-c" in command}
    assert "-mavx2" not in flags["op.cpp"]
    assert "-mavx2" in flags["op_avx2.cpp"]
    assert "-mavx512f" not in flags["op_avx2.cpp"]
    assert "-mavx512f" in flags["op_avx512.cpp"]
    assert "-mavx512bf16" not in flags["op_avx512.cpp"]
    assert {"-mavx2", "-mavx512f", "-mavx512bf16"} <= set(flags["op_avx512_bf16.cpp"])


@pytest.mark.parametrize("knows", [False, True])
def test_flags_that_the_compiler_does_not_know_are_left_out(hook, project, monkeypatch, knows):
    commands = []
    monkeypatch.setattr(hook, "run", commands.append)
    monkeypatch.setattr(hook.subprocess, "run", lambda command, **_: SimpleNamespace(returncode=0 if knows else 1))
    (project / "csrc" / "op_amx.cpp").touch()
    hook.build_library(["g++"], project / "csrc", project)
    (command,) = [command for command in commands if "op_amx.cpp" in " ".join(command) and "-c" in command]
    assert "-mavx512f" in command
    assert ("-mamx-bf16" in command) == knows
