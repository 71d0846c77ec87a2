"""`octavo plugins`: what is loaded, what it registered and what is broken."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from octavo.plugins.check import NameFailure
    from octavo.plugins.discovery import PluginInfo
    from octavo.plugins.manager import LoadedPlugins


def plugins_command(
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    check: Annotated[bool, typer.Option("--check", help="import every registered name; exit with 1 if anything is broken")] = False,
) -> None:
    """Show which plugins are loaded and what they register."""
    from octavo.env import read_environment
    from octavo.plugins.check import check_names
    from octavo.plugins.manager import load_plugins

    environment = read_environment()
    loaded = load_plugins(allow=environment.plugins_allow, block=environment.plugins_block, tolerate=True)
    failures = check_names(loaded.registries) if check else ()
    if as_json:
        typer.echo(json.dumps(_as_json(loaded, failures, checked=check), indent=2))
    elif sys.stdout.isatty():
        _print_table(loaded, failures)
    else:
        typer.echo("\n".join(_lines(loaded, failures)))
    if check and (failures or loaded.broken):
        raise typer.Exit(code=1)
    if check:
        names = sum(len(registry) for registry in loaded.registries.all().values())
        typer.echo(f"octavo: all {names} registered names of {len(loaded.plugins)} plugins can be imported", err=True)


def registered_by(loaded: "LoadedPlugins", plugin: "PluginInfo") -> dict[str, dict[str, str]]:
    """Registry field -> name -> target of what one plugin registered; empty registries are left out."""
    owned = {
        field: {name: registry.target(name) for name in registry if registry.owner(name) == plugin.name}
        for field, registry in loaded.registries.all().items()
    }
    return {field: names for field, names in owned.items() if names}


def _as_json(loaded: "LoadedPlugins", failures: tuple["NameFailure", ...], *, checked: bool) -> dict[str, Any]:
    plugins = [{**asdict(plugin), "registered": registered_by(loaded, plugin)} for plugin in loaded.plugins]
    return {"plugins": plugins, "failures": [asdict(failure) for failure in failures] if checked else None}


def _lines(loaded: "LoadedPlugins", failures: tuple["NameFailure", ...]) -> list[str]:
    lines = []
    for plugin in loaded.plugins:
        lines.append(f"{plugin.name}: {plugin.distribution} {plugin.version}, {plugin.module}")
        if plugin.hooks:
            lines.append(f"  hooks: {', '.join(plugin.hooks)}")
        lines.extend(f"  {text}" for text in _registrations(loaded, plugin))
        if plugin.error is not None:
            lines.append(f"  broken: {plugin.error}")
    lines.extend(f"failed: {failure.error}" for failure in failures)
    return lines


def _registrations(loaded: "LoadedPlugins", plugin: "PluginInfo") -> list[str]:
    registries = loaded.registries.all()
    return [
        f"{registries[field].kind} {name}: {target}"
        for field, names in registered_by(loaded, plugin).items()
        for name, target in names.items()
    ]


def _print_table(loaded: "LoadedPlugins", failures: tuple["NameFailure", ...]) -> None:
    """A line a registered name, then what is wrong."""
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    console = Console()
    registries = loaded.registries.all()
    table = Table("plugin", "kind", "name", Column("target", overflow="fold"))
    for plugin in loaded.plugins:
        title = f"{plugin.name} {plugin.version}"
        for field, names in registered_by(loaded, plugin).items():
            for name, target in names.items():
                table.add_row(title, registries[field].kind, name, target)
                title = ""
        if title:
            table.add_row(title, "", "", "")
        table.add_section()
    console.print(table)
    for text in [f"broken: {plugin.error}" for plugin in loaded.broken] + [f"failed: {failure.error}" for failure in failures]:
        console.print(Text(text, style="red"))
