"""`octavo env`: what Octavo found on this machine and what it would choose here."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from octavo.config.engine import Decision, EngineConfig
    from octavo.config.machine import Machine
    from octavo.plugins.manager import LoadedPlugins
    from octavo.plugins.registries import Registries

_OTHER_PACKAGES = ("torch", "tokenizers", "numpy")


def env_command(
    model: Annotated[
        str | None, typer.Option(help="whose choices to show, as for `octavo generate`; default: the model that a source offers")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show versions, the machine, plugins and what would be chosen here for a model. Its weights are not read."""
    report = collect_report(model)
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    elif sys.stdout.isatty():
        _print_tables(_sections(report))
    else:
        typer.echo("\n".join(f"{title}:\n" + "\n".join(f"  {key}: {value}" for key, value in rows) for title, rows in _sections(report)))


def collect_report(model: str | None = None) -> dict[str, Any]:
    """Everything that the command shows, ready for JSON. Imports torch where a runner does.

    Args:
        model: whose decisions to show; None: those of the default model, or of the machine alone where there is none.
    """
    from octavo.config.machine import read_machine
    from octavo.env import environment_values, read_environment
    from octavo.plugins.manager import load_plugins

    environment = read_environment()
    loaded = load_plugins(allow=environment.plugins_allow, block=environment.plugins_block, tolerate=True)
    machine = read_machine(environment=environment).with_step_times(environment)
    name, decisions, notes = _describe_model(model, machine, loaded.registries, offline=environment.hub_offline)
    runner_decisions, runner_notes = _describe_runner(loaded.registries)
    return {
        "packages": _packages(),
        "python": sys.version.split()[0],
        "machine": _machine(machine),
        "environment": environment_values(),
        "plugins": _plugins(loaded),
        "model": name,
        "decisions": [asdict(decision) for decision in (*decisions, *runner_decisions)],
        "notes": [*notes, *runner_notes],
    }


def _packages() -> dict[str, str]:
    import importlib.metadata

    found = {(item.metadata["Name"] or ""): item.version for item in importlib.metadata.distributions()}
    names = sorted(name for name in found if name == "octavo" or name.startswith("octavo-"))
    return {name: found[name] for name in (*names, *_OTHER_PACKAGES) if name in found}


def _machine(machine: "Machine") -> dict[str, Any]:
    facts = {**asdict(machine), "cpu_flags": sorted(machine.cpu_flags)}
    del facts["step_times"], facts["num_threads"]  # shown with the decision that rests on them, and as the variable
    return facts


def _plugins(loaded: "LoadedPlugins") -> list[dict[str, str | None]]:
    return [{"name": plugin.name, "version": plugin.version, "error": plugin.error} for plugin in loaded.plugins]


def _describe_model(
    name: str | None, machine: "Machine", registries: "Registries", *, offline: bool
) -> tuple[str | None, tuple["Decision", ...], list[str]]:
    """The model, what every option left at "auto" becomes for it here, and what keeps us from saying so."""
    from octavo.config.defaults import machine_decisions
    from octavo.config.options import EngineOptions
    from octavo.errors import OctavoError
    from octavo.model.source import default_model_name
    from octavo.plan.unloaded import resolve_unloaded

    try:
        if name is None:
            if not any(registries.model_sources.get(source).is_default for source in registries.model_sources):
                return None, machine_decisions(machine), []
            name = default_model_name(registries.model_sources)
        config = resolve_unloaded(EngineOptions(model=name), machine, registries, offline=offline)
    except OctavoError as error:
        return name, machine_decisions(machine), [str(error)]
    return name, (*config.decisions, *_describe_files(config), *_describe_pool(config, machine)), []


def _describe_files(config: "EngineConfig") -> "list[Decision]":
    from octavo.config.engine import Decision

    files = config.load.files
    defaults = "the model's" if files.generation_config is not None else "none"
    where = "generation_config.json is there" if files.generation_config is not None else "the model brings no generation_config.json"
    return [
        Decision(name="load_format", value=files.format, reason="what the model's files are"),
        Decision(name="generation_config", value=defaults, reason=where),
    ]


def _describe_pool(config: "EngineConfig", machine: "Machine") -> "list[Decision]":
    """The size that the KV pool would get; a GPU is measured when the model is loaded."""
    from octavo.config.engine import Decision
    from octavo.config.units import format_bytes
    from octavo.errors import ConfigurationError
    from octavo.plan.memory_plan import DeviceMemory, plan_memory

    if machine.has_cuda:
        return [Decision(name="kv_cache_memory_bytes", value="measured", reason="what weights and activations leave of the GPU")]
    device = DeviceMemory(total=machine.total_memory, available=machine.available_memory, on_cpu=True)
    try:
        size = format_bytes(plan_memory(config, device, tokens=()).kv_cache_bytes)
    except ConfigurationError as error:
        return [Decision(name="kv_cache_memory_bytes", value="too little", reason=str(error))]
    reason = f"of {format_bytes(machine.available_memory)} available; half of what weights leave, or less where all requests fit into less"
    return [Decision(name="kv_cache_memory_bytes", value=size, reason=reason)]


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
    sections: list[tuple[str, list[tuple[str, str]]]] = [
        ("packages", [*report["packages"].items(), ("Python", report["python"])]),
        ("machine", [(name.replace("_", " "), str(value)) for name, value in machine.items()]),
        ("environment", variables),
        ("plugins", plugins),
        ("model", [("name", report["model"])] if report["model"] else []),
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
