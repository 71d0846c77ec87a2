"""A typed table of names that plugins fill and that is frozen before the engine starts."""

import difflib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from octavo.errors import MAX_SHOWN, ConfigurationError, PluginError, shown

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered name: the value or its "module:Name", the plugin that owns it, and what lists say about it."""

    value: T | str
    owner: str
    summary: str = ""


class Registry(Generic[T]):
    """Maps names to values of one kind. A value is the thing itself, or "module:Name", imported when it is first asked for.

    Args:
        kind: what the values are, in the singular ("model", "attention backend"); used in messages.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}
        self._resolved: dict[str, T] = {}
        self._owner = "octavo"
        self._frozen = False
        self._left_out: tuple[str, ...] = ()

    def register(self, name: str, value: T | str, *, summary: str = "") -> None:
        """Add a name. Raises `PluginError` for a name that exists, and after start-up.

        Args:
            name: of the value.
            value: the thing itself, or its "module:Name".
            summary: one sentence for lists that import nothing, such as the help of the command line.
        """
        if self._frozen:
            raise PluginError(f"{self.kind} {name!r} was registered after start-up: register it in the hook")
        if known := self._entries.get(name):
            raise PluginError(f"{self.kind} {name!r} of plugin {self._owner!r} is already registered by plugin {known.owner!r}")
        if isinstance(value, str) and value.count(":") != 1:
            raise PluginError(f"{self.kind} {name!r} of plugin {self._owner!r} is {value!r}: write it as 'module:Name'")
        self._entries[name] = Entry(value, self._owner, summary)

    def get(self, name: str) -> T:
        """The value of a name, imported if need be. Raises `ConfigurationError` listing what there is, `PluginError` for a bad import."""
        entry = self._entries[self.require(name)]
        if name not in self._resolved:
            self._resolved[name] = self._import(name, entry) if isinstance(entry.value, str) else entry.value
        return self._resolved[name]

    def require(self, name: str) -> str:
        """The name itself where it is registered, without importing its value. Raises `ConfigurationError` listing what there is."""
        if name not in self._entries:
            raise ConfigurationError(self._unknown(name))
        return name

    def owner(self, name: str) -> str:
        """The plugin that registered a name."""
        return self._entries[name].owner

    def summary(self, name: str) -> str:
        """What was said of a name where it was registered; may be empty."""
        return self._entries[name].summary

    def target(self, name: str) -> str:
        """What a name stands for, as text, without importing it."""
        value = self._entries[name].value
        if isinstance(value, str):
            return value
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}:{named.__qualname__}"

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def owned_by(self, owner: str) -> "Registry[T]":
        """This registry, with what is registered next credited to a plugin (the manager calls it before each hook)."""
        self._owner = owner
        return self

    def freeze(self, left_out: tuple[str, ...] = ()) -> None:
        """Refuse further names. `left_out` are plugins that are installed and were not loaded: what is missing may be theirs."""
        self._frozen = True
        self._left_out = left_out

    @property
    def left_out(self) -> str:
        """What a message about a missing name ends with: the installed plugins that may bring it, or nothing."""
        if not self._left_out:
            return ""
        names = ", ".join(map(repr, self._left_out))
        return f"; installed but blocked, or not among those allowed: {names} (OCTAVO_PLUGINS_BLOCK, OCTAVO_PLUGINS_ALLOW)"

    def _unknown(self, name: str) -> str:
        names = list(self)
        close = difflib.get_close_matches(name[:MAX_SHOWN], names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return f"unknown {self.kind} {shown(name)}: there are {', '.join(names) or 'none'}{hint}{self.left_out}"

    def _import(self, name: str, entry: Entry[T]) -> T:
        assert isinstance(entry.value, str)
        module, _, attribute = entry.value.partition(":")
        try:
            value: T = getattr(importlib.import_module(module), attribute)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise PluginError(f"{self.kind} {name!r} of plugin {entry.owner!r} does not load from {entry.value!r}: {problem}") from error
        return value
