"""Which Python values are plain JSON, and so come out of a message between processes as they went in."""

import math

from octavo.errors import shown

MAX_DEPTH = 16
MAX_VALUES = 65_536
_LOWEST, _HIGHEST = -(2**63), 2**64 - 1


def json_problem(value: object) -> str | None:
    """What keeps a value from being plain JSON, in words that follow "holds"; None where nothing does.

    Plain are null, booleans, integers of 64 bits, finite numbers, strings, lists and mappings from strings to these, up to `MAX_DEPTH`
    levels and `MAX_VALUES` values.
    """
    level: list[object] = [value]
    num_values = 1
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict | list):
                num_values += len(item)
                if num_values > MAX_VALUES:
                    return f"more than {MAX_VALUES:,} values, which is the limit"
                if (problem := _key_problem(item)) is not None:
                    return problem
                inner += item.values() if isinstance(item, dict) else item
            elif (problem := _scalar_problem(item)) is not None:
                return problem
        if not inner:
            return None
        level = inner
    return f"more than {MAX_DEPTH} levels, which is the limit"


def _key_problem(value: dict[object, object] | list[object]) -> str | None:
    wrong = [key for key in value if not isinstance(key, str)] if isinstance(value, dict) else []
    return f"the key {shown(wrong[0])}, but keys are strings" if wrong else None


def _scalar_problem(value: object) -> str | None:
    if value is None or isinstance(value, bool | str):
        return None
    if isinstance(value, int):
        return None if _LOWEST <= value <= _HIGHEST else f"{shown(value)}, but integers are of 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value}, but numbers are finite"
    return f"{shown(value)}, which is no plain JSON"
