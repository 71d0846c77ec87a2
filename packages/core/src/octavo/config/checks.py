"""One check an option kind: the value comes back typed, or a message says the value, the limit and the way out."""

from typing import Any

from octavo.config.units import parse_bytes, parse_count
from octavo.errors import ConfigurationError, shown
from octavo.plugins.registry import Registry


def check_count(name: str, value: object, *, minimum: int) -> int:
    """A whole number of at least `minimum`, from an integer or text with a unit."""
    count = parse_count(value, name=name)
    if count < minimum:
        raise ConfigurationError(f"{name} {shown(value)} is below {minimum}: give {minimum} or more")
    return count


def check_bytes(name: str, value: object) -> int:
    """A size of at least one byte, from an integer or text with a unit."""
    size = parse_bytes(value, name=name)
    if size < 1:
        raise ConfigurationError(f"{name} {shown(value)} is below 1 byte: give a size such as 4GiB")
    return size


def check_share(name: str, value: object) -> float:
    """A number in (0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ConfigurationError(f"{name} {shown(value)} is not a number above 0 and at most 1: give a share such as 0.9")
    return float(value)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigurationError(f"{name} {shown(value)} is unknown: there are {', '.join(choices)}")
    return value


def check_bool(name: str, value: object) -> bool:
    """True or False and nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} {shown(value)} is neither true nor false: give True or False")
    return value


def check_registered(name: str, value: object, registry: Registry[Any], *, besides: tuple[str, ...] = ()) -> str:
    """A name in a registry, or one of `besides`. What it stands for is not imported."""
    if not isinstance(value, str):
        known = ", ".join((*besides, *registry))
        raise ConfigurationError(f"{name} {shown(value)} is not a name: there are {known}")
    return value if value in besides else registry.require(value)
