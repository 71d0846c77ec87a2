"""`octavo env`: what Octavo found on this machine and what it would choose here."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from octavo.config.engine import Decision
    from octavo.config.machine import Machine
    from octavo.plugins.manager import LoadedPlugins
    from octavo.plugins.registries import Registries

_OTHER_PACKAGES = ("torch", "tokenizers", "numpy")


def env_command(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Show versions, the machine, plugins and what would be chosen here."""
    report = collect_report()
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    elif sys.stdout.isatty():
        _print_tables(_sections(report))
    else:
        typer.echo("\n".join(f"{title}:\n" + "\n".join(f"  {key}: {value}" for key, value in rows) for title, rows in _sections(report)))


def collect_report() -> dict[str, Any]:
    """Everything that the command shows, ready for JSON. Imports torch where a runner does."""
    from octavo.config.defaults import machine_decisions
    from octavo.config.machine import read_machine
    from octavo.env import environment_values, read_environment
    from octavo.plugins.manager import load_plugins

    environment = read_environment()
    loaded = load_plugins(allow=environment.plugins_allow, block=environment.plugins_block, tolerate=True)
    machine = read_machine(environment=environment)
    runner_decisions, notes = _describe_runner(loaded.registries)
    return {
        "packages": _packages(),
        "python": sys.version.split()[0],
        "machine": _machine(machine),
        "environment": environment_values(),
        "plugins": _plugins(loaded),
        "decisions": [asdict(decision) for decision in (*machine_decisions(machine), *runner_decisions)],
        "notes": notes,
    }


def _packages() -> dict[str, str]:
    import importlib.metadata

    found = {(item.metadata["Name"] or ""): item.version for item in importlib.metadata.distributions()}
    names = sorted(name for name in found if name == "octavo" or name.startswith("octavo-"))
    return {name: found[name] for name in (*names, *_OTHER_PACKAGES) if name in found}


def _machine(machine: "Machine") -> dict[str, Any]:
    return {**asdict(machine), "cpu_flags": sorted(machine.cpu_flags)}


def _plugins(loaded: "LoadedPlugins") -> list[dict[str, str | None]]:
    return [{"name": plugin.name, "version": plugin.version, "error": plugin.error} for plugin in loaded.plugins]


def _describe_runner(registries: "Registries") -> tuple[tuple["Decision", ...], list[str]]:
    """What the default runner would choose here, and what keeps it from saying so."""
    from octavo.config.resolve import DEFAULT_RUNNER
    from octavo.errors import PluginError

    if DEFAULT_RUNNER not in registries.runners:
        return (), [f"no runner {DEFAULT_RUNNER!r}: install octavo-models to run models"]
    try:
        return registries.runners.get(DEFAULT_RUNNER).describe(registries), []
    except PluginError as error:
        return (), [str(error)]
    except Exception as error:  # noqa: BLE001 - a broken installation is what this command is asked about, so it is part of the answer
        return (), [f"runner {DEFAULT_RUNNER!r} does not describe itself: {type(error).__name__}: {error}"]


def _sections(report: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The report as titled rows for readers."""
    from octavo.config.units import format_bytes
    from octavo.env import VARIABLES

    variables = [(name, "not set" if value is None else f"{value!r} ({VARIABLES[name]})") for name, value in report["environment"].items()]
    plugins = [(plugin["name"], "fine" if plugin["error"] is None else f"broken: {plugin['error']}") for plugin in report["plugins"]]
    machine = dict(report["machine"])
    for name in ("total_memory", "available_memory"):
        machine[name] = format_bytes(machine[name])
    machine["cpu_flags"] = " ".join(machine["cpu_flags"]) or "none of those used"
    sections = [
        ("packages", [*report["packages"].items(), ("Python", report["python"])]),
        ("machine", [(name.replace("_", " "), str(value)) for name, value in machine.items()]),
        ("environment", variables),
        ("plugins", plugins),
        ("decisions", [(decision["name"], f"{decision['value']} ({decision['reason']})") for decision in report["decisions"]]),
        ("notes", [(str(number), note) for number, note in enumerate(report["notes"], start=1)]),
    ]
    return [(title, rows) for title, rows in sections if rows]


def _print_tables(sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for title, rows in sections:
        table = Table(title=title, title_justify="left", show_header=False)
        for key, value in rows:
            table.add_row(Text(key), Text(value))
        console.print(table)
