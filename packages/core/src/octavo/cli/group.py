"""The root of the command line: its own commands, and those that plugins register."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from octavo.env import read_environment


class PluginCommands(TyperGroup):
    """Asks plugins for the commands that it does not know. Showing help imports none of them and survives broken plugins."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Its own command, or a plugin's; None where there is none of that name. Raises `PluginError` for a broken plugin."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name.startswith("-"):
            return own
        from octavo.plugins.manager import load_plugins

        environment = read_environment()
        commands = load_plugins(allow=environment.plugins_allow, block=environment.plugins_block).registries.commands
        return _as_command(cmd_name, commands.get(cmd_name)) if cmd_name in commands else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help with a line for each plugin's command and, at the end, what is wrong with plugins."""
        from octavo.plugins.manager import load_plugins

        environment = read_environment()
        loaded = load_plugins(allow=environment.plugins_allow, block=environment.plugins_block, tolerate=True)
        problems = [f"{plugin.name}: {plugin.error}" for plugin in loaded.plugins if plugin.error is not None]
        commands = loaded.registries.commands
        for name in commands:
            if name in self.commands:
                problems.append(f"{commands.owner(name)}: its command {name!r} is one of Octavo's own and cannot be called")
            else:
                self.add_command(TyperCommand(name, help=f"Of plugin {commands.owner(name)}.", rich_markup_mode=None))
        super().format_help(ctx, formatter)
        if problems:
            formatter.write("\nBroken plugins:\n" + "".join(f"  {problem}\n" for problem in problems))


def _as_command(name: str, value: Any) -> Any:
    """A typer application, or a function for one command, as something to call."""
    if isinstance(value, typer.Typer):
        command = typer.main.get_command(value)
    else:
        application = typer.Typer(add_completion=False, rich_markup_mode=None)
        application.command(name)(value)
        command = typer.main.get_command(application)
    command.name = name
    return command
