"""What holds for every command of a plugin."""

import io
from contextlib import redirect_stderr, redirect_stdout

import typer

from octavo.cli.application import build_application
from octavo.cli.main import USAGE, run
from octavo.env import read_environment
from octavo.plugins.manager import load_plugins


def check_command(name: str) -> str:
    """Ask an installed command for help, and call it with an option that it does not have. Raises AssertionError.

    Args:
        name: as registered, "bench NAME" for a command of the group `bench`.

    Returns:
        The help.
    """
    assert name not in _own_commands(build_application()), (
        f"{name!r} is one of Octavo's own commands, which come first: choose another name"
    )
    environment = read_environment()
    commands = load_plugins(allow=environment.plugins_allow, block=environment.plugins_block).registries.commands
    assert name in commands, f"no plugin registers the command {name!r}: there are {', '.join(commands) or 'none'}"
    code, output = _call(*name.split(" "), "--help")
    assert code == 0, f"octavo {name} --help ends with exit code {code}: {output}"
    assert _describes(output), f"octavo {name} --help does not say what the command does: give its function a docstring"
    code, complaint = _call(*name.split(" "), "--no-such-option")
    assert code == USAGE, f"octavo {name} --no-such-option ends with exit code {code}, but must end with {USAGE}: {complaint}"
    return output


def _own_commands(application: typer.Typer, group: str = "") -> set[str]:
    """Octavo's own commands, those of groups behind the group's name."""
    names = {f"{group}{command.name}" for command in application.registered_commands}
    for inner in application.registered_groups:
        assert inner.typer_instance is not None
        names |= {f"{group}{inner.name}"} | _own_commands(inner.typer_instance, f"{group}{inner.name} ")
    return names


def _describes(output: str) -> bool:
    """Whether a text stands between the line of usage and the first list (of arguments, options or commands)."""
    _, _, rest = output.partition("Usage:")
    lines = [line for line in rest.splitlines()[1:] if line.strip()]
    return bool(lines) and not lines[0].endswith(":")


def _call(*arguments: str) -> tuple[int, str]:
    """Exit code and what was printed."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = run(arguments)
    return code, printed.getvalue()
