"""What the whole command line shares with the command that runs."""

from dataclasses import dataclass
from typing import Any

import typer


@dataclass
class CommandLineState:
    """Set while options are parsed, read by `octavo.cli.main` when something goes wrong.

    Attributes:
        debug: show tracebacks and log at level DEBUG.
    """

    debug: bool = False


def debug_option(**more: Any) -> Any:
    """The option `--debug`, which works before and after the command's name."""
    return typer.Option("--debug", help="show tracebacks and debug messages", callback=_note_debug, is_eager=True, **more)


def _note_debug(context: typer.Context, value: bool) -> bool:
    state = context.find_object(CommandLineState)
    if state is not None:
        state.debug = value = state.debug or value
    return value
