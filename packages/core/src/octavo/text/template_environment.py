"""The jinja environment that chat templates run in: a sandbox that reaches nothing, and that charges what is done in it to a meter.

Which operations cost is written into the template when it is compiled: loops count their rounds, and what compares or makes values is
led through a filter that weighs them. https://jinja.palletsprojects.com/en/stable/sandbox/
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from types import BuiltinMethodType, MethodType
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter, safe_range
from jinja2.tests import TESTS
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from octavo.text.template_filters import bounded_filters, meter_of
from octavo.text.template_meter import NODE_WEIGHT, LimitReachedError, RenderLimits
from octavo.text.template_text import UNSAFE_METHODS, check_formatted, check_numbers, checked_method

# Names with a space, which no template can use.
_TICK, _MADE, _CONCAT = "count time", "count value", "join texts"
_COMPARING_TESTS = ["eq", "equalto", "==", "ne", "!=", "in", "gt", "greaterthan", ">", "ge", ">=", "lt", "lessthan", "<", "le", "<="]
_MAX_PATTERN = 1024
_MAX_BITS = 4096
_MAX_CHARACTERS = RenderLimits().characters


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Every rendering in it needs its meter, under the name `template_filters.METER`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _GenerationTag],
            finalize=_finalize,
            # No part of a template is run before there is a meter.
            optimized=False,
        )
        self.filters = bounded_filters() | {_TICK: _tick, _MADE: _made, _CONCAT: _concat}
        self.tests |= {name: _counted_test(TESTS[name]) for name in _COMPARING_TESTS}
        self.globals = {
            "dict": dict,
            "joiner": self.globals["joiner"],
            "namespace": _Namespace,
            "raise_exception": _raise_exception,
            "range": safe_range,
            "strftime_now": _strftime_now,
        }

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """The text of a block or macro. Without a rendering at hand its length is all that is checked."""
        listed = list(parts)
        if sum(map(len, listed)) > _MAX_CHARACTERS:
            raise LimitReachedError(f"it makes more than {_MAX_CHARACTERS:,} characters at once")
        return "".join(listed)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """What may be asked of a value. Numbers and bytes have nothing that a prompt needs."""
        if isinstance(obj, int | float | complex | bytes | bytearray) or (isinstance(obj, str) and attr in UNSAFE_METHODS):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`format` and `format_map` of a text, in the sandbox and with widths in bounds; None for anything else."""
        if not isinstance(value, MethodType | BuiltinMethodType) or value.__name__ not in {"format", "format_map"}:
            return None
        text = value.__self__
        if not isinstance(text, str):
            return None
        takes_mapping = value.__name__ == "format_map"

        @pass_context
        def format_text(context: Context, *args: Any, **kwargs: Any) -> str:
            check_formatted(meter_of(context), text, [*args, *kwargs.values()], "{")
            formatter = _Formatter(self)
            return formatter.vformat(str(text), (), *args) if takes_mapping else formatter.vformat(str(text), args, kwargs)

        return format_text

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  (as in jinja: names of arguments are free)
        """Call something for a template. Raises `LimitReachedError` where that takes or makes too much."""
        meter = meter_of(__context)
        meter.tick()
        if args or kwargs:
            meter.check(sum(map(meter.weigh, args)) + sum(map(meter.weigh, kwargs.values())))
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            args = checked_method(meter, owner, __obj.__name__, args, kwargs)
        result = super().call(__context, __obj, *args, **kwargs)
        if not isinstance(owner, dict):
            meter.made(result)
        return result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operation that may grow. Raises `LimitReachedError` where it does."""
        meter = meter_of(context)
        if operator == "+" and type(left) is str and type(right) is str:
            # The commonest by far.
            text = left + right
            meter.take(len(text))
            return text
        if operator == "%" and isinstance(left, str):
            check_formatted(meter, left, right, "%")
        elif operator == "**":
            _check_power(left, right)
        elif operator == "*":
            for sequence, times in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(sequence, str | list | tuple):
                    meter.check((meter.weigh(sequence) - NODE_WEIGHT) * times)
        result = super().call_binop(context, operator, left, right)
        if operator == "+" and isinstance(result, list):
            meter.joined(left, right, result)
        else:
            _check_number(result)
            meter.made(result)
        return result

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template: nodes.Template = _Metering().visit(super()._parse(source, name, filename))
        template.set_environment(self)
        return template


class _Metering(NodeTransformer):
    """Writes into a template what is to be counted."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_through(_TICK, nodes.Const(True)), lineno=node.lineno))
        if node.test is not None:
            node.test = nodes.And(_through(_TICK, nodes.Const(True)), node.test, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _through(_CONCAT, nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        # To compare with a constant takes no longer than it is.
        is_short = all(operand.op in {"eq", "ne"} and isinstance(operand.expr, nodes.Const) for operand in node.ops)
        return node if is_short else _through(_TICK, node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _through(_MADE, node) if isinstance(node.arg, nodes.Slice) else node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _weighed(node, node.items)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _weighed(node, node.items) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _weighed(node, [pair.value for pair in node.items] + [pair.key for pair in node.items])


def _weighed(node: nodes.Expr, items: Iterable[nodes.Node]) -> nodes.Expr:
    """What is made of constants is no longer than the template."""
    return node if all(isinstance(item, nodes.Const) for item in items) else _through(_MADE, node)


def _through(name: str, node: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    """What is written into the prompt."""
    meter_of(context).made(value)
    return value


@pass_context
def _tick(context: Context, value: Any) -> Any:
    meter_of(context).tick()
    return value


@pass_context
def _made(context: Context, value: Any) -> Any:
    meter_of(context).made(value)
    return value


@pass_context
def _concat(context: Context, values: list[Any]) -> str:
    meter = meter_of(context)
    meter.check(sum(map(meter.weigh, values)))
    text = "".join(map(str, values))
    meter.made(text)
    return text


def _counted_test(test: Any) -> Callable[..., Any]:
    @pass_context
    def run(context: Context, *args: Any) -> Any:
        meter_of(context).tick()
        return test(*args)

    return run


def _check_power(base: object, exponent: object) -> None:
    if isinstance(base, int) and isinstance(exponent, int) and abs(exponent) * base.bit_length() > _MAX_BITS:
        raise LimitReachedError("it raises a number to a power that is too large")


def _check_number(value: object) -> None:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise LimitReachedError(f"it makes a number of more than {_MAX_BITS} bits")


class _Formatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        check_numbers(format_spec)
        formatted: str = super().format_field(value, format_spec)
        return formatted


class _Namespace(Namespace):
    """Shows nothing of what is in it: namespaces may hold each other, and each showing all would never end."""

    def __repr__(self) -> str:
        return "<Namespace>"


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's part for training; for a prompt it is what is inside."""

    tags = {"generation"}  # noqa: RUF012  (jinja declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Read up to the end tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _strftime_now(pattern: str) -> str:
    if len(pattern) > _MAX_PATTERN:
        raise LimitReachedError(f"it formats the time by more than {_MAX_PATTERN:,} characters")
    return datetime.now().astimezone().strftime(pattern)
