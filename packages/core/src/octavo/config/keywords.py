"""Engine options from the keywords of a Python call."""

import difflib
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
        ConfigurationError: a name is no option, or is given twice under its two names.
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
    return EngineOptions(**values)
