"""Runs the hooks of every plugin once and freezes what they registered."""

import dataclasses
import difflib
import logging
import sys
from dataclasses import dataclass

import pluggy

from octavo.errors import ConfigurationError, OctavoError, PluginError
from octavo.plugins import hookspecs
from octavo.plugins.discovery import Candidate, PluginInfo, find_plugins, left_out_plugins
from octavo.plugins.registries import Registries

_HOOK_PREFIX = "octavo_register_"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LoadedPlugins:
    """What start-up found.

    Attributes:
        registries: filled and frozen. What a broken plugin registered before it failed is still there.
        plugins: the core's built-ins, then the others by name.
    """

    registries: Registries
    plugins: tuple[PluginInfo, ...]

    @property
    def broken(self) -> tuple[PluginInfo, ...]:
        """Those that failed; only where failures were tolerated."""
        return tuple(plugin for plugin in self.plugins if plugin.error is not None)


def load_plugins(*, allow: tuple[str, ...] | None = None, block: tuple[str, ...] = (), tolerate: bool = False) -> LoadedPlugins:
    """Run the hooks of the built-ins, then of every entry point of group "octavo" in the order of names, and freeze the registries.

    Nothing is kept between calls: each returns registries of its own.

    Args:
        allow: the only plugins to load; None loads all.
        block: plugins not to load, also where `allow` names them. They are not imported.
        tolerate: collect what is wrong with a plugin in its `error` and go on, instead of raising.

    Raises:
        ConfigurationError: `allow` names a plugin that is not installed, or `block` the built-ins.
        PluginError: a plugin does not import, implements an unknown hook, raises in a hook or registers a name twice. It is named.
    """
    registries = Registries()
    plugins = []
    for candidate in find_plugins(allow=allow, block=block):
        torch_was_there = "torch" in sys.modules
        plugins.append(_load_or_report(candidate, registries, tolerate=tolerate))
        if not torch_was_there and "torch" in sys.modules:
            _log.warning("%s imported torch while it registered names: register 'module:Name' instead", candidate.info)
    left_out = left_out_plugins(allow=allow, block=block)
    for registry in registries.all().values():
        registry.freeze(left_out)
    return LoadedPlugins(registries=registries, plugins=tuple(plugins))


def hook_names() -> tuple[str, ...]:
    """Every hook that a plugin may implement, in the order in which they run."""
    return tuple(_HOOK_PREFIX + field.name for field in dataclasses.fields(Registries))


def _load_or_report(candidate: Candidate, registries: Registries, *, tolerate: bool) -> PluginInfo:
    """Load one plugin; `hooks` fills up on the way, so that a broken plugin shows how far it came."""
    hooks: list[str] = []
    error = None
    try:
        _load(candidate, registries, hooks)
    except (ConfigurationError, PluginError) as problem:
        if not tolerate:
            raise
        error = str(problem)
    return dataclasses.replace(candidate.info, hooks=tuple(hooks), error=error)


def _load(candidate: Candidate, registries: Registries, hooks: list[str]) -> None:
    info = candidate.info
    if candidate.problem is not None:
        raise candidate.problem
    try:
        module: object = candidate.entry_point.load()
    except (Exception, SystemExit) as error:
        raise PluginError(f"{info} does not import: {_one_line(error)}") from error
    manager = _manage(module, info)
    for field, registry in registries.all().items():
        hook: pluggy.HookCaller = getattr(manager.hook, _HOOK_PREFIX + field)
        if not hook.get_hookimpls():
            continue
        hooks.append(hook.name)
        try:
            hook(registry=registry.owned_by(info.name))
        except (Exception, SystemExit) as error:
            raise PluginError(f"{info} failed in {hook.name}: {_one_line(error)}") from error


def _manage(module: object, info: PluginInfo) -> pluggy.PluginManager:
    """A manager of its own for each plugin, so that the fault of one never shows in another."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(module, name=info.name)
    except (TypeError, pluggy.PluginValidationError) as error:
        raise PluginError(f"{info} does not fit the hooks: {_one_line(error)}") from error
    _refuse_unknown_hooks(manager, module, info)
    return manager


def _refuse_unknown_hooks(manager: pluggy.PluginManager, module: object, info: PluginInfo) -> None:
    known = hook_names()
    callers = manager.get_hookcallers(module) or []
    for caller in callers:
        if caller.name not in known and not all(implementation.optionalhook for implementation in caller.get_hookimpls()):
            close = difflib.get_close_matches(caller.name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise PluginError(f"{info} implements unknown hook {caller.name!r}: there are {', '.join(known)}{hint}")
    implemented = {caller.name for caller in callers}
    for name in known:
        if name not in implemented and callable(getattr(module, name, None)):
            raise PluginError(f"{info} defines {name!r} unmarked: put @octavo.hookimpl above it")


def _one_line(error: BaseException) -> str:
    """An exception as one line; the project's own speak for themselves, others are named."""
    text = " ".join(str(error).split())
    if isinstance(error, OctavoError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
