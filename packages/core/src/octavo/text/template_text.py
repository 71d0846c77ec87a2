"""Operations on text that can grow out of proportion, checked before they are done."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from octavo.text.template_meter import LimitReachedError, Meter

LONG_TEXT = 1 << 20
"""Characters from which on a text is not taken to pieces."""

MAX_WIDTH = 4096
"""Of a field that is filled up."""

UNSAFE_METHODS = frozenset({"encode", "expandtabs", "maketrans", "translate"})
"""Of text, whose results cannot be foreseen or are no text."""

_MAX_PIECES = 1 << 17
_WIDE = re.compile(rf"\d{{{len(str(MAX_WIDTH))},}}", re.ASCII)

Arguments = tuple[Any, ...]


def check_width(width: object) -> None:
    """Raise `LimitReachedError` for a width that no prompt needs."""
    if isinstance(width, int) and width > MAX_WIDTH:
        raise LimitReachedError(f"it fills text up to more than {MAX_WIDTH:,} characters")


def check_numbers(pattern: str) -> None:
    """The same for the widths in a pattern of `format` or `%`: numbers of a digit fewer than the limit pass."""
    if _WIDE.search(pattern):
        raise LimitReachedError(f"it fills text up to {10 ** (len(str(MAX_WIDTH)) - 1):,} characters or more")


def check_formatted(meter: Meter, pattern: str, arguments: object, sign: str) -> None:
    """Raise `LimitReachedError` where a pattern may become too long: each of its fields may show all there is."""
    check_numbers(pattern)
    if sign == "%" and "*" in pattern:
        raise LimitReachedError("it takes the width of a field from a value")
    meter.check(len(pattern) + pattern.count(sign) * (MAX_WIDTH + meter.weigh(arguments)))


def check_replaced(meter: Meter, text: str, old: object, new: object) -> None:
    """The same for replacing one text by another."""
    if isinstance(old, str) and isinstance(new, str):
        meter.check(len(text) + text.count(old) * max(len(new) - len(old), 0))


def listed(meter: Meter, items: Any, separator: object) -> Any:
    """What is to be joined as a list, which can be weighed and is the same when it is asked again."""
    if isinstance(items, str) or not isinstance(items, Iterable):
        return items
    as_list = list(items)
    meter.check(meter.weigh(as_list) + len(as_list) * len(str(separator)))
    return as_list


def checked_method(meter: Meter, text: str, name: str, args: Arguments, kwargs: Mapping[str, Any]) -> Arguments:
    """The arguments for a method of text. Raises `LimitReachedError` where it would make too much of it."""
    check = _METHODS.get(name)
    return args if check is None else check(meter, text, args, kwargs)


def _join(meter: Meter, text: str, args: Arguments, kwargs: Mapping[str, Any]) -> Arguments:  # noqa: ARG001  (all are called alike)
    return (listed(meter, args[0], text),) if len(args) == 1 else args


def _replace(meter: Meter, text: str, args: Arguments, kwargs: Mapping[str, Any]) -> Arguments:  # noqa: ARG001
    if len(args) >= 2:
        check_replaced(meter, text, args[0], args[1])
    return args


def _fill(meter: Meter, text: str, args: Arguments, kwargs: Mapping[str, Any]) -> Arguments:  # noqa: ARG001
    if args:
        check_width(args[0])
    return args


def _split(meter: Meter, text: str, args: Arguments, kwargs: Mapping[str, Any]) -> Arguments:  # noqa: ARG001
    if len(text) > LONG_TEXT:
        separator = args[0] if args else kwargs.get("sep")
        if not isinstance(separator, str) or not separator or text.count(separator) > _MAX_PIECES:
            raise LimitReachedError(f"it splits more than {LONG_TEXT:,} characters into pieces")
    return args


_METHODS: dict[str, Callable[[Meter, str, Arguments, Mapping[str, Any]], Arguments]] = {
    "center": _fill,
    "join": _join,
    "ljust": _fill,
    "replace": _replace,
    "rjust": _fill,
    "rsplit": _split,
    "split": _split,
    "splitlines": _split,
    "zfill": _fill,
}
