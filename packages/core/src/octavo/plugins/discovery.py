"""Which plugins there are and which of them are wanted, before any of them is imported."""

import importlib.metadata
import logging
from dataclasses import dataclass

import octavo
from octavo.errors import ConfigurationError, OctavoError, PluginError

ENTRY_POINT_GROUP = "octavo"
BUILTIN = "octavo"
"""Name of the plugin that is the core itself: always there, first, and never blocked."""

_BUILTIN_MODULE = "octavo.plugins.builtin"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PluginInfo:
    """One plugin as found.

    Attributes:
        name: of its entry point.
        distribution, version: that brought it; "unknown" where the metadata does not say.
        module: that holds its hooks.
        hooks: it implements, in the order in which they run.
        error: why it is broken, or None.
    """

    name: str
    distribution: str
    version: str
    module: str
    hooks: tuple[str, ...] = ()
    error: str | None = None

    def __str__(self) -> str:
        return f"plugin {self.name!r} ({self.distribution} {self.version}, {self.module})"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A plugin that has not been imported yet.

    Attributes:
        info: what the metadata says.
        entry_point: to import it by.
        problem: why it cannot be loaded at all, or None: `PluginError` for a taken name, `ConfigurationError` for a missing plugin.
    """

    info: PluginInfo
    entry_point: importlib.metadata.EntryPoint
    problem: OctavoError | None = None


def find_plugins(*, allow: tuple[str, ...] | None, block: tuple[str, ...]) -> tuple[Candidate, ...]:
    """The built-ins, then the wanted entry points of group "octavo" by name, then what `allow` names and nobody installed.

    A blocked name that nobody installed is a warning.

    Raises:
        ConfigurationError: `block` names the built-ins.
    """
    installed = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    there = ", ".join(sorted(installed.names)) or "none"
    if BUILTIN in block:
        raise ConfigurationError(f"plugin {BUILTIN!r} is the core itself and cannot be blocked; the others are: {there}")
    for name in block:
        if name not in installed.names:
            _log.warning("blocked plugin %r is not installed: there are %s", name, there)
    wanted = [point for point in installed if point.name not in block and (allow is None or point.name in allow)]
    missing = [name for name in dict.fromkeys(allow or ()) if name not in installed.names and name != BUILTIN]
    return _candidates(wanted) + tuple(_missing(name, there) for name in missing)


def left_out_plugins(*, allow: tuple[str, ...] | None, block: tuple[str, ...]) -> tuple[str, ...]:
    """Names of plugins that are installed, and that `find_plugins` leaves out, in order."""
    names = sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP).names)
    return tuple(name for name in names if name in block or (allow is not None and name not in allow))


def _candidates(points: list[importlib.metadata.EntryPoint]) -> tuple[Candidate, ...]:
    candidates = [_builtin()]
    owners = {BUILTIN: "octavo-core"}
    for info, point in sorted(((_info(point), point) for point in points), key=lambda pair: (pair[0].name, pair[0].distribution)):
        problem = None
        if owner := owners.get(info.name):
            problem = PluginError(f"{info} cannot be loaded: {owner} brings that name too; uninstall one of them")
        owners.setdefault(info.name, info.distribution)
        candidates.append(Candidate(info=info, entry_point=point, problem=problem))
    return tuple(candidates)


def _info(point: importlib.metadata.EntryPoint) -> PluginInfo:
    distribution, version = (point.dist.name, point.dist.version) if point.dist is not None else ("unknown", "unknown")
    return PluginInfo(name=point.name, distribution=distribution, version=version, module=point.module)


def _builtin() -> Candidate:
    point = importlib.metadata.EntryPoint(name=BUILTIN, value=_BUILTIN_MODULE, group=ENTRY_POINT_GROUP)
    info = PluginInfo(name=BUILTIN, distribution="octavo-core", version=octavo.__version__, module=_BUILTIN_MODULE)
    return Candidate(info=info, entry_point=point)


def _missing(name: str, there: str) -> Candidate:
    point = importlib.metadata.EntryPoint(name=name, value=name, group=ENTRY_POINT_GROUP)
    info = PluginInfo(name=name, distribution="unknown", version="unknown", module="unknown")
    problem = ConfigurationError(f"allowed plugin {name!r} is not installed: there are {there}")
    return Candidate(info=info, entry_point=point, problem=problem)
