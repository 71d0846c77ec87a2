"""The filters that templates may use: those of jinja whose results can be foreseen, each charged to the rendering.

What Transformers' templates use is among them: https://huggingface.co/docs/transformers/chat_templating
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from octavo.text.template_meter import LimitReachedError, Meter
from octavo.text.template_text import LONG_TEXT, check_formatted, check_replaced, check_width, listed

METER = "render meter"
"""Name of the meter among the variables of a rendering; with its space no template can speak of it."""

_MAX_INDENT = 64
_MAX_DIGITS = 100
# Take no time that depends on what they are given.
_FREE = ("count", "d", "default", "first", "last", "length")
# Give something that was there before.
_GETTERS = ("attr", "items", "max", "min", "random", "safe")
_OF_ANY_LENGTH = ("capitalize", "e", "escape", "float", "indent", "int", "lower", "replace", "string", "trim", "upper")
_OF_PIECES = (
    *("abs", "dictsort", "format", "groupby", "join", "list", "map", "reject", "rejectattr", "reverse", "round"),
    *("select", "selectattr", "sort", "sum", "title", "truncate", "unique", "urlencode", "wordcount"),
)

_plain = ImmutableSandboxedEnvironment()

Check = Callable[[Meter, Any, tuple[Any, ...], Mapping[str, Any]], Any]


def meter_of(context: Context) -> Meter:
    """The meter of a rendering."""
    meter: Meter = context.parent[METER]
    return meter


def bounded_filters() -> dict[str, Callable[..., Any]]:
    """Name -> filter."""
    free = {name: _plain.filters[name] for name in _FREE}
    return free | {name: _bounded(name) for name in (*_GETTERS, *_OF_ANY_LENGTH, *_OF_PIECES)} | {"tojson": to_json}


def _bounded(name: str) -> Callable[..., Any]:
    check = _CHECKS.get(name)
    is_new, takes_pieces = name not in _GETTERS, name in _OF_PIECES

    @pass_context
    def run(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = meter_of(context)
        meter.tick()
        if takes_pieces and isinstance(value, str) and len(value) > LONG_TEXT:
            raise LimitReachedError(f"its filter {name!r} takes at most {LONG_TEXT:,} characters")
        if check is not None:
            value = check(meter, value, args, kwargs)
        result = _plain.call_filter(name, value, args, kwargs, context)
        if is_new:
            meter.made(result)
        return result

    return run


@pass_context
def to_json(
    context: Context,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is: jinja's own filter escapes characters of HTML, and models were not trained on that."""
    meter = meter_of(context)
    meter.check(meter.weigh(value))
    _check_indent(indent)
    for separator in separators or ():
        _check_indent(separator)
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    if indent is None:
        text = encoder.encode(value)
        meter.made(text)
        return text
    # Indents of what is deep inside can be most of the text.
    parts, length = [], 0
    for part in encoder.iterencode(value):
        meter.tick()
        length += len(part)
        meter.check(length)
        parts.append(part)
    meter.take(length)
    return "".join(parts)


def _check_indent(indent: object) -> None:
    if (indent if isinstance(indent, int) else len(str(indent))) > _MAX_INDENT:
        raise LimitReachedError(f"it indents by more than {_MAX_INDENT} characters")


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str, default: Any) -> Any:
    return args[place] if place < len(args) else kwargs.get(name, default)


def _join(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    # An attribute of an item is not heavier than the item.
    return listed(meter, value, _argument(args, kwargs, 0, "d", ""))


def _replace(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    check_replaced(meter, str(value), _argument(args, kwargs, 0, "old", None), _argument(args, kwargs, 1, "new", None))
    return value


def _format(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    check_formatted(meter, str(value), [*args, *kwargs.values()], "%")
    return value


def _indent(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    width = _argument(args, kwargs, 0, "width", 4)
    _check_indent(width)
    text = str(value)
    meter.check(len(text) + text.count("\n") * _MAX_INDENT)
    return value


def _round(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ARG001  (all are called alike)
    precision = _argument(args, kwargs, 0, "precision", 0)
    if isinstance(precision, int) and abs(precision) > _MAX_DIGITS:
        raise LimitReachedError(f"it rounds to more than {_MAX_DIGITS} digits")
    return value


def _sum(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ARG001
    if not isinstance(_argument(args, kwargs, 1, "start", 0), int | float):
        raise LimitReachedError("it adds up what is no number")
    return value


def _truncate(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ARG001
    if len(str(_argument(args, kwargs, 2, "end", ""))) > LONG_TEXT:
        check_width(LONG_TEXT)
    return value


def _string(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ARG001
    meter.check(meter.weigh(value))
    return value


_CHECKS: dict[str, Check] = {
    "format": _format,
    "indent": _indent,
    "join": _join,
    "replace": _replace,
    "round": _round,
    "string": _string,
    "sum": _sum,
    "truncate": _truncate,
} | dict.fromkeys(("capitalize", "e", "escape", "lower", "title", "trim", "upper", "urlencode", "wordcount"), _string)
