"""Sizes of every table that hangs on some objects, found by looking, so that new ones are not forgotten."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

PACKAGES = ("octavo", "octavo_models", "octavo_kernels")
LARGEST_LOOKED_INTO = 4096
"""Elements of a container; larger ones hold numbers."""

_CONTAINERS = (dict, list, set, frozenset, deque, tuple)


def table_sizes(roots: Iterable[object]) -> dict[str, int]:
    """Path to length, of each list, dict, set and deque that objects of our packages hold, from some roots on."""
    sizes: dict[str, int] = {}
    seen: set[int] = set()
    open_values: list[tuple[str, Any]] = [(type(root).__name__, root) for root in roots]
    while open_values:
        path, value = open_values.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, _CONTAINERS):
            if not isinstance(value, tuple):
                sizes[path] = len(value)
            open_values += elements(path, value)
        elif type(value).__module__.split(".")[0] in PACKAGES and not isinstance(value, type):
            open_values += ((f"{path}.{name}", member) for name, member in members(value).items())
    return sizes


def elements(path: str, container: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, but for plain values."""
    if len(container) > LARGEST_LOOKED_INTO:
        return
    pairs = container.items() if isinstance(container, Mapping) else enumerate(container)
    for key, value in pairs:
        if not isinstance(value, str | bytes | int | float | None):
            yield f"{path}[{key!r}]", value


def members(value: object) -> dict[str, Any]:
    """Attributes of an object, in its dictionary or in slots."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    return {name: getattr(value, name) for name in slots if hasattr(value, name)} | dict(getattr(value, "__dict__", {}))


def differences(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """What has another size, or is new or gone, in words."""
    return [
        f"{path}: {before.get(path, 'not there')} before, {after.get(path, 'gone')} after"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
