import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import octavo as package
from octavo.testing.installed import write_plugin


def test_help_lists_commands_and_those_of_plugins_without_importing_them(octavo: Any, fake_plugin: str) -> None:
    done = octavo("--help")
    assert done.code == 0
    for name in ("generate", "bench", "plugins", "env", "greet"):
        assert f"\n  {name} " in done.out
    assert "Of plugin clifake." in done.out
    assert not [name for name in sys.modules if name.endswith("clifake_commands")]


def test_a_plugins_command_runs(octavo: Any, fake_plugin: str) -> None:
    done = octavo("greet", "Ada")
    assert (done.code, done.out, done.err) == (0, "hello Ada\n", "")


def test_a_plugins_command_has_help_of_its_own(octavo: Any, fake_plugin: str) -> None:
    assert "Usage: octavo greet" in octavo("greet", "--help").out


def test_help_names_broken_plugins_and_everything_else_refuses_to_start(
    octavo: Any, fake_model: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plugin(tmp_path / "site", "clitorn", "raise RuntimeError('out of order')")
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", "clifake,clitorn")
    done = octavo("--help")
    assert done.code == 0
    assert "Broken plugins:" in done.out
    assert "out of order" in done.out
    for arguments in (["generate", *fake_model, "hello"], ["greet", "Ada"]):
        done = octavo(*arguments)
        assert (done.code, done.out) == (1, "")
        assert "clitorn" in done.err.splitlines()[-1]
    assert octavo("generate", *fake_model, "hello", "--plugins-block", "clitorn", "--max-tokens", "1").code == 0


def test_version(octavo: Any) -> None:
    assert octavo("--version").out == f"octavo {package.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["generat"], "Did you mean 'generate'"),
        (["generate", "--no-such-flag"], "--no-such-flag"),
        (["generate", "--num-blocks", "x", "hello"], "--num-blocks"),
        (["bench"], "Missing command"),
    ],
)
def test_usage_errors_are_one_line_with_the_way_to_the_help(octavo: Any, fake_plugin: str, arguments: list[str], said: str) -> None:
    done = octavo(*arguments)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("octavo: error: ")
    assert said in line
    assert "--help" in line


def test_without_a_command_there_is_help_on_standard_error(octavo: Any, fake_plugin: str) -> None:
    done = octavo()
    assert (done.code, done.out) == (2, "")
    assert "Usage: octavo" in done.err


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_traceback_shows_only_with_debug(octavo: Any, fake_model: tuple[str, ...], where: str) -> None:
    arguments = ["generate", *fake_model, "--dtype", "float17", "hello"]
    assert "Traceback" not in octavo(*arguments).err
    arguments = ["--debug", *arguments] if where == "before" else [*arguments, "--debug"]
    done = octavo(*arguments)
    assert done.code == 2
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("octavo: error: dtype 'float17'")


def test_a_bug_is_one_line_too(octavo: Any, fake_plugin: str, tmp_path: Path) -> None:
    (next((tmp_path / "site").glob("*_commands.py"))).write_text("def greet(name: str) -> None:\n    raise KeyError(name)\n")
    done = octavo("greet", "Ada")
    assert (done.code, done.err) == (1, "octavo: error: KeyError: 'Ada' (--debug shows where)\n")


def test_an_interrupted_command_ends_with_130(octavo: Any, fake_plugin: str, tmp_path: Path) -> None:
    (next((tmp_path / "site").glob("*_commands.py"))).write_text("def greet(name: str) -> None:\n    raise KeyboardInterrupt\n")
    assert octavo("greet", "Ada").code == 130


def test_a_reader_that_goes_away_ends_the_program_quietly(fake_plugin: str, tmp_path: Path) -> None:
    (next((tmp_path / "site").glob("*_commands.py"))).write_text("def greet(name: str) -> None:\n    print(name * 100_000)\n")
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    program = "import sys; from octavo.cli.main import main; sys.argv = ['octavo', 'greet', 'Ada']; main()"
    done = subprocess.run([sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, env=environment, check=False, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_help_needs_neither_the_engine_nor_its_libraries() -> None:
    program = (
        "import sys; from octavo.cli.main import run; run(['--help']); run(['generate', '--help']);"
        "sys.exit(str({'torch', 'numpy', 'tokenizers', 'jinja2', 'huggingface_hub', 'yaml', 'tqdm', 'rich'} & set(sys.modules)))"
    )
    environment = os.environ | {"OCTAVO_PLUGINS_ALLOW": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False, text=True)
    assert done.stderr == "set()\n"
