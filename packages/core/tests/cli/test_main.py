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
    assert "Greet somebody." in done.out
    assert not [name for name in sys.modules if name.endswith("clifake_commands")]


def test_a_plugins_command_runs(octavo: Any, fake_plugin: str) -> None:
    done = octavo("greet", "Ada")
    assert (done.code, done.out, done.err) == (0, "hello Ada\n", "")


def test_a_plugins_command_has_help_of_its_own(octavo: Any, fake_plugin: str) -> None:
    assert "Usage: octavo greet" in octavo("greet", "--help").out


def test_a_plugin_adds_a_command_to_a_group_that_is_listed_there_alone(octavo: Any, fake_plugin: str) -> None:
    listed = octavo("bench", "--help").out
    assert "\n  throughput " in listed
    assert "\n  greet       Of plugin clifake.\n" in listed
    assert "Broken plugins" not in listed
    assert octavo("--help").out.count("\n  greet ") == 1
    assert not [name for name in sys.modules if name.endswith("clifake_commands")]
    assert "Usage: octavo bench greet" in octavo("bench", "greet", "--help").out
    assert (octavo("bench", "greet", "Ada").code, octavo("bench", "greet", "Ada").out) == (0, "hello Ada\n")


def test_a_command_is_called_by_words_and_not_by_its_registered_name(octavo: Any, fake_plugin: str) -> None:
    assert octavo("bench greet", "Ada").code == 2


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("plan", ["--help"], "its command 'plan' is one of Octavo's own"),
        ("bench latency", ["bench", "--help"], "its command 'bench latency' is one of Octavo's own"),
        ("plan more", ["--help"], "its command 'plan more' belongs to no group"),
        ("nowhere greet", ["--help"], "its command 'nowhere greet' belongs to no group"),
        ("bench more greet", ["--help"], "its command 'bench more greet' belongs to no group"),
    ],
)
def test_help_names_commands_that_cannot_be_called(
    octavo: Any, fake_plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: list[str], said: str
) -> None:
    hook = f"import octavo\n@octavo.hookimpl\ndef octavo_register_commands(registry):\n    registry.register({name!r}, print)\n"
    plugin = "clihidden" + name.replace(" ", "")  # a module is imported once
    write_plugin(tmp_path / "site", plugin, hook)
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", plugin)
    done = octavo(*arguments)
    assert (done.code, done.err) == (0, "")
    assert f"{plugin}: {said}" in done.out


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


def test_what_is_no_exception_is_one_line_too(octavo: Any, fake_plugin: str, tmp_path: Path) -> None:
    source = "class Panic(BaseException): pass\ndef greet(name: str) -> None:\n    raise Panic(name)\n"
    (next((tmp_path / "site").glob("*_commands.py"))).write_text(source)
    done = octavo("greet", "Ada")
    assert (done.code, done.err) == (1, "octavo: error: Panic: Ada (--debug shows where)\n")


@pytest.mark.parametrize(("code", "status", "said"), [("None", 0, ""), ("3", 3, ""), ("'out of order'", 1, "out of order\n")])
def test_a_command_that_exits_by_itself_does_so(octavo: Any, fake_plugin: str, tmp_path: Path, code: str, status: int, said: str) -> None:
    source = f"import sys\ndef greet(name: str) -> None:\n    sys.exit({code})\n"
    (next((tmp_path / "site").glob("*_commands.py"))).write_text(source)
    done = octavo("greet", "Ada")
    assert (done.code, done.err) == (status, said)


def test_an_interrupt_while_the_commands_are_imported_ends_with_130(monkeypatch: pytest.MonkeyPatch, octavo: Any) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("octavo.cli.application.build_application", interrupted)
    done = octavo("--help")
    assert (done.code, done.err) == (130, "")


def test_nothing_slow_is_imported_before_an_interrupt_is_heard() -> None:
    program = "import sys; import octavo.cli.main; sys.exit(str({'typer', 'traceback', 'inspect', 'msgspec'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"sys_path = {sys.path!r}\nimport sys; sys.path[:] = sys_path\n{program}"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.stderr == "set()\n"


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
