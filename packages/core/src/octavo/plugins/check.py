"""Resolves every registered name: what breaks here would break where the name is chosen."""

from dataclasses import dataclass

from octavo.engine.executor import Executor
from octavo.engine.runner import ModelRunner
from octavo.errors import PluginError
from octavo.model.source import ModelSource
from octavo.plugins.registries import Registries
from octavo.scheduler.policy import SchedulerPolicy

_BASES: dict[str, type] = {
    "model_sources": ModelSource,
    "runners": ModelRunner,
    "executors": Executor,
    "scheduler_policies": SchedulerPolicy,
}
"""Registry to the class that its values extend; of the others the taker knows the class and the core does not."""


@dataclass(frozen=True, kw_only=True)
class NameFailure:
    """A registered name that leads nowhere.

    Attributes:
        registry: field of `Registries`.
        name: registered.
        plugin: that registered it.
        error: what is wrong.
    """

    registry: str
    name: str
    plugin: str
    error: str


def check_names(registries: Registries) -> tuple[NameFailure, ...]:
    """Import what every name stands for (torch too, where plugins need it) and check that it is of the right kind."""
    failures = []
    for field, registry in registries.all().items():
        for name in registry:
            try:
                value = registry.get(name)
            except PluginError as error:
                failures.append(NameFailure(registry=field, name=name, plugin=registry.owner(name), error=str(error)))
                continue
            problem = _wrong_kind(field, value)
            if problem is not None:
                error_text = f"{registry.kind} {name!r} ({registry.target(name)}) {problem}"
                failures.append(NameFailure(registry=field, name=name, plugin=registry.owner(name), error=error_text))
    return tuple(failures)


def _wrong_kind(field: str, value: object) -> str | None:
    if field == "commands":
        return None if callable(value) else "is neither a typer application nor a function"
    if field == "config_readers":
        return None if callable(value) else "is no function"
    if not isinstance(value, type):
        return "is not a class"
    base = _BASES.get(field)
    if base is not None and not issubclass(value, base):
        return f"does not extend {base.__module__}.{base.__qualname__}"
    return None
