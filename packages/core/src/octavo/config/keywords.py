"""Engine options from the keywords of a Python call."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from octavo.config.options import EngineOptions
from octavo.errors import ConfigurationError

ALIASES = {"gpu_memory_utilization": "memory_utilization"}
"""Names that users of other engines know -> field of `EngineOptions`."""


def options_from_keywords(given: Mapping[str, Any]) -> EngineOptions:
    """Options of these names; the others keep their defaults.

    Raises:
        ConfigurationError: a name is no option, or is given twice under its two names; or the model is neither text nor a path.
    """
    known = [item.name for item in fields(EngineOptions)]
    values: dict[str, Any] = {}
    for name, value in given.items():
        field = ALIASES.get(name, name)
        if field not in known:
            close = difflib.get_close_matches(name, [*known, *ALIASES], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f": there are {', '.join(known)}"
            raise ConfigurationError(f"unknown engine flag {name!r}{hint}")
        if field in values:
            raise ConfigurationError(f"{field} is given twice, also as {name!r}: give it once")
        values[field] = value
    if "model" in values:
        values["model"] = _model_name(values["model"])
    return EngineOptions(**values)


def _model_name(value: object) -> str | None:
    name = os.fspath(value) if isinstance(value, os.PathLike) else value
    if name is None or isinstance(name, str):
        return name
    raise ConfigurationError(f"model {value!r} is of type {type(value).__name__}: give a name as text, or a path")
