"""The tree of commands."""

from typing import Annotated

import typer

from octavo.cli.group import PluginCommands
from octavo.cli.main import USAGE
from octavo.cli.state import debug_option

_HELP_NAMES = {"help_option_names": ["--help", "-h"]}


def build_application() -> typer.Typer:
    """The command line; commands of plugins are found when they are called or listed."""
    from octavo.cli.bench import bench
    from octavo.cli.chat import chat_command
    from octavo.cli.compile import compile_command
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
    application.command("compile")(compile_command)
    application.add_typer(bench, name="bench")
    application.command("plugins")(plugins_command)
    application.command("env")(env_command)
    return application


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
