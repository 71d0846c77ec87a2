"""Spans of time, nested as the calls that they clock."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple

from octavo.profile.parts import ENCLOSING, Part

MAX_SPANS = 500_000
"""Kept for a trace; what comes later is counted alone."""


class Detail(Enum):
    """How finely a forward is clocked: each op, at the price of a call of Python for each, or only what Python calls anyway."""

    OPS = "ops"
    CALLS = "calls"


class Span(NamedTuple):
    """Seconds of `time.perf_counter`."""

    name: str
    part: Part
    start: float
    end: float


class SpanRecorder:
    """Takes down spans of one thread. A span belongs to the outermost part around it, so that parts add up.

    Args:
        detail: what whoever puts up clocks should clock.

    Attributes:
        spans: in the order of their ends, the first `MAX_SPANS`; none where only calls are clocked.
        totals: seconds by part.
        library_s: seconds in compiled code and tensor ops, whatever part they belong to.
    """

    def __init__(self, detail: Detail = Detail.OPS) -> None:
        self.detail = detail
        self.spans: list[Span] = []
        self.totals: dict[Part, float] = {}
        self.library_s = 0.0
        self._depth = 0
        self._library_depth = 0

    def add(self, name: str, part: Part, start: float, end: float) -> None:
        """Note a span in a library that has no other inside."""
        self._keep(name, part, start, end)
        if self._depth == 0:
            self._credit(part, end - start)
        if self._library_depth == 0:
            self.library_s += end - start

    def clocked(self, function: Callable[..., Any], name: str, part: Part, *, is_library: bool = False) -> Callable[..., Any]:
        """The same function, whose calls are noted as spans of a part."""
        depth, library_depth = int(part not in ENCLOSING), int(is_library)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._depth += depth
            self._library_depth += library_depth
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                end = time.perf_counter()
                self._depth -= depth
                self._library_depth -= library_depth
                self._keep(name, part, start, end)
                if self._depth == 0:
                    self._credit(part, end - start)
                if is_library and self._library_depth == 0:
                    self.library_s += end - start

        return call

    @contextmanager
    def clock(
        self, owner: object, method: str, part: Part, *, is_library: bool = False, then: Callable[[Any], None] | None = None
    ) -> Iterator[None]:
        """Clock a method of one object inside; others of its class stay as they are, and so does it afterwards.

        `then` is given what the method returns, behind its span.
        """
        members = vars(owner)
        assert method not in members, f"{method} of {owner!r} is clocked already"
        clocked = self.clocked(getattr(owner, method), method.removeprefix("_"), part, is_library=is_library)
        members[method] = clocked if then is None else _followed(clocked, then)
        try:
            yield
        finally:
            del members[method]

    @property
    def is_in_library(self) -> bool:
        """Whether the clock of a library runs."""
        return self._library_depth > 0

    def take_totals(self) -> dict[Part, float]:
        """Seconds by part since the last call."""
        totals, self.totals = self.totals, {}
        return totals

    def _keep(self, name: str, part: Part, start: float, end: float) -> None:
        if self.detail is Detail.OPS and len(self.spans) < MAX_SPANS:
            self.spans.append(Span(name, part, start, end))

    def _credit(self, part: Part, seconds: float) -> None:
        self.totals[part] = self.totals.get(part, 0.0) + seconds


def _followed(function: Callable[..., Any], then: Callable[[Any], None]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        then(result)
        return result

    return call
