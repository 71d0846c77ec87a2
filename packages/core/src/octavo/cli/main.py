"""`octavo`: the commands, and what becomes of their errors.

Exit codes: 0; 1, it failed; 2, it was asked for something that cannot be (an unknown option, a value out of range, an impossible
prompt); 130, interrupted.
"""

import atexit
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from octavo.cli.group import PluginCommands
from octavo.cli.state import CommandLineState, debug_option
from octavo.cli.streams import open_missing_streams
from octavo.errors import ConfigurationError, InvalidRequestError, ModelNotFoundError, OctavoError

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main() -> None:
    """Entry point of the program."""
    open_missing_streams()
    _leave(run(sys.argv[1:]))


def _leave(code: int) -> NoReturn:
    """End the process. What was registered for its end runs, but torch is not taken down piece by piece, which takes a second."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or FAILED
    atexit._run_exitfuncs()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code. An error becomes one line on stderr, and a traceback before it with `--debug`."""
    state = CommandLineState()
    try:
        result = typer.main.get_command(build_application()).main(
            args=list(arguments), prog_name="octavo", standalone_mode=False, obj=state
        )
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _silence_standard_output()
        return FAILED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except Exception as error:  # noqa: BLE001 - the border: nothing above it could say more to the user
        if state.debug:
            traceback.print_exception(error)
        print(f"octavo: error: {_one_line(error)}", file=sys.stderr)
        _drop_what_cannot_be_written()
        return _exit_code(error)
    return result if isinstance(result, int) else 0


def build_application() -> typer.Typer:
    """The command line; commands of plugins are found when they are called or listed."""
    from octavo.cli.bench import bench
    from octavo.cli.chat import chat_command
    from octavo.cli.env import env_command
    from octavo.cli.generate import generate_command
    from octavo.cli.plan import plan_command
    from octavo.cli.plugins import plugins_command

    application = typer.Typer(
        cls=PluginCommands, add_completion=False, invoke_without_command=True, rich_markup_mode=None, context_settings=_HELP_NAMES
    )
    application.callback()(_octavo)
    application.command("generate")(generate_command)
    application.command("chat")(chat_command)
    application.command("plan")(plan_command)
    application.add_typer(bench, name="bench")
    application.command("plugins")(plugins_command)
    application.command("env")(env_command)
    return application


_HELP_NAMES = {"help_option_names": ["--help", "-h"]}


def _show_version(value: bool) -> None:
    if value:
        import octavo

        typer.echo(f"octavo {octavo.__version__}")
        raise typer.Exit


def _octavo(
    context: typer.Context,
    _version: Annotated[bool, typer.Option("--version", help="show the version", callback=_show_version, is_eager=True)] = False,
    _debug: Annotated[bool, debug_option()] = False,
) -> None:
    """Run and serve large language models."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(USAGE)


def _exit_code(error: Exception) -> int:
    if isinstance(error, typer.TyperException):
        return error.exit_code
    if isinstance(error, (ConfigurationError, InvalidRequestError)) and not isinstance(error, ModelNotFoundError):
        return USAGE
    return FAILED


def _one_line(error: Exception) -> str:
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        message = error.format_message() + (f" (see '{context.command_path} --help')" if context is not None else "")
    elif isinstance(error, OctavoError):
        message = str(error)
    else:
        message = f"{type(error).__name__}: {error} (--debug shows where)"
    return " ".join(message.split())


def _drop_what_cannot_be_written() -> None:
    """Where standard output is what failed, do not let the interpreter fail again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        _silence_standard_output()


def _silence_standard_output() -> None:
    """Give the interpreter somewhere to flush to when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
