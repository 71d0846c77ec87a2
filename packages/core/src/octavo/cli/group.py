"""Groups of the command line: their own commands, and those that plugins register.

A plugin's command "NAME" belongs to the root, one named "GROUP NAME" to a group that Octavo has, such as `bench`.
"""

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from octavo.env import read_environment

if TYPE_CHECKING:
    from octavo.plugins.manager import LoadedPlugins


class PluginCommands(TyperGroup):
    """Asks plugins for the commands that it does not know. Showing help imports none of them and survives broken plugins."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Its own command, or a plugin's; None where there is none of that name. Raises `PluginError` for a broken plugin."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name.startswith("-") or " " in cmd_name:
            return own
        commands = _load_plugins(tolerate=False).registries.commands
        name = " ".join((*_path(ctx), cmd_name))
        return _as_command(cmd_name, commands.get(name)) if name in commands else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help with a line for each plugin's command and, at the end, what is wrong with plugins."""
        loaded = _load_plugins(tolerate=True)
        commands = loaded.registries.commands
        problems = [f"{plugin.name}: {plugin.error}" for plugin in loaded.plugins if plugin.error is not None]
        problems += [f"{commands.owner(name)}: {problem}" for name in commands if (problem := self._find_problem(ctx, name))]
        for name in commands:
            *path, last = name.split(" ")
            if tuple(path) == _path(ctx) and last not in self.commands:
                about = commands.summary(name) or f"Of plugin {commands.owner(name)}."
                self.add_command(TyperCommand(last, help=about, rich_markup_mode=None))
        super().format_help(ctx, formatter)
        if problems:
            formatter.write("\nBroken plugins:\n" + "".join(f"  {problem}\n" for problem in problems))

    def _find_problem(self, ctx: Any, name: str) -> str | None:
        """Why a registered command cannot be called, as far as this group can tell."""
        *path, last = name.split(" ")
        if tuple(path) == _path(ctx):
            return f"its command {name!r} is one of Octavo's own and cannot be called" if last in self.commands else None
        if ctx.parent is None and not (len(path) == 1 and isinstance(self.commands.get(path[0]), PluginCommands)):
            return f"its command {name!r} belongs to no group of Octavo's and cannot be called"
        return None


def _path(ctx: Any) -> tuple[str, ...]:
    """Names of the groups from below the root down to the one of a context."""
    return () if ctx.parent is None else (*_path(ctx.parent), str(ctx.info_name))


def _load_plugins(*, tolerate: bool) -> "LoadedPlugins":
    from octavo.plugins.manager import load_plugins

    environment = read_environment()
    return load_plugins(allow=environment.plugins_allow, block=environment.plugins_block, tolerate=tolerate)


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
