"""Engine options from the keywords of a Python call."""

import difflib
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from typing import Any

from octavo.config.options import EngineOptions
from octavo.errors import MAX_SHOWN, ConfigurationError, shown

ALIASES = {"gpu_memory_utilization": "memory_utilization"}
"""Names that users of other engines know -> field of `EngineOptions`."""

_TEXTS = frozenset({"model", "revision", "chat_template", "compile_artifacts"})


def options_from_keywords(given: Mapping[str, Any]) -> EngineOptions:
    """Options of these names; the others keep their defaults.

    Raises:
        ConfigurationError: a name is no option, or is given under both of its names; or a name or path is neither text nor a path.
    """
    known = [item.name for item in fields(EngineOptions)]
    values: dict[str, Any] = {}
    for name, value in given.items():
        field = ALIASES.get(name, name)
        if field not in known:
            close = difflib.get_close_matches(name[:MAX_SHOWN], [*known, *ALIASES], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f": there are {', '.join(known)}"
            raise ConfigurationError(f"unknown engine flag {shown(name)}{hint}")
        if field in values:
            names = " and ".join(other for other in given if ALIASES.get(other, other) == field)
            raise ConfigurationError(f"{names} are two names of one flag: give one of them")
        values[field] = value
    for field in _TEXTS & values.keys():
        values[field] = _text(field, values[field])
    return EngineOptions(**values)


def check_names(keyword: str, value: object) -> tuple[str, ...] | None:
    """Several names given as one keyword; None stays None. Raises `ConfigurationError` for anything else, one name alone included."""
    if value is None:
        return None
    if not isinstance(value, Sequence | Set) or isinstance(value, str | bytes) or not all(isinstance(name, str) for name in value):
        raise ConfigurationError(f"{keyword} {shown(value)} is no list of names: give it as ['name', …], or None to leave it open")
    return tuple(value)


def _text(field: str, value: object) -> str | None:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if text is None or isinstance(text, str):
        return text
    raise ConfigurationError(f"{field} {shown(value)} is of type {type(value).__name__}: give a name as text, or a path")
