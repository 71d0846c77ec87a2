"""What one rendering of a template may take: time, and memory for the values that it makes.

A template is a program of a stranger, and a sandbox only keeps it from reaching out. Whatever could take long or grow is charged here
before or right after it is done, so that the worst single operation stays below some tenths of a second and some hundred megabytes.
"""

import time
from collections.abc import ItemsView, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from typing import Any

NODE_WEIGHT = 16
"""Of a value beside the characters that it holds."""

_LOOKS_EVERY = 8
_CONTAINERS = (list, tuple, set, frozenset)


@dataclass(frozen=True, kw_only=True)
class RenderLimits:
    """What a rendering may take.

    Attributes:
        characters: of the rendered text, and of any value on the way to it, where containers count `NODE_WEIGHT` for each value inside.
        total_characters: of all values that are made on the way.
        cpu_seconds: of the thread that renders.
    """

    characters: int = 32 << 20
    total_characters: int = 512 << 20
    cpu_seconds: float = 1.0


class LimitReachedError(Exception):
    """A rendering wants more than it may take. No error that jinja's own code handles."""


class Meter:
    """Charges one rendering. Values must not change while it goes on: what containers weigh is remembered."""

    def __init__(self, limits: RenderLimits) -> None:
        self._limits = limits
        self._characters = limits.characters
        self._deadline = time.thread_time() + limits.cpu_seconds
        self._total = 0
        self._looks_in = _LOOKS_EVERY
        # By identity, with the container itself so that its identity stays its own.
        self._weights: dict[int, tuple[object, int]] = {}

    def tick(self) -> None:
        """Something was done that takes time. Raises `LimitReachedError` where the time is up."""
        self._looks_in -= 1
        if self._looks_in < 0:
            self._looks_in = _LOOKS_EVERY
            if time.thread_time() > self._deadline:
                raise LimitReachedError(f"it takes longer than {self._limits.cpu_seconds:g} s")

    def check(self, weight: int) -> None:
        """Raise `LimitReachedError` where one value would weigh too much."""
        if weight > self._characters:
            raise LimitReachedError(f"it makes more than {self._characters:,} characters at once")

    def made(self, value: Any) -> None:
        """A value was made. Raises `LimitReachedError` where it, or all together, are too much."""
        self.take(len(value) if type(value) is str else self.weigh(value))

    def take(self, weight: int) -> None:
        """As `made`, for a value of a known weight."""
        self._total += weight
        self._looks_in -= 1
        if self._looks_in < 0 or weight > self._characters or self._total > self._limits.total_characters:
            self.tick()
            self.check(weight)
            if self._total > self._limits.total_characters:
                raise LimitReachedError(f"it makes more than {self._limits.total_characters:,} characters in all")

    def joined(self, left: Any, right: Any, result: Any) -> None:
        """As `made` for a list that is two lists, whose values need not be looked at again."""
        weight = self.weigh(left) + self.weigh(right)
        self._weights[id(result)] = (result, weight)
        self.take(weight)

    def weigh(self, value: Any) -> int:
        """Characters of a value and of all that is in it, however often it is in it. Raises as `check` where that is too much."""
        if isinstance(value, str):
            return NODE_WEIGHT + len(value)
        if isinstance(value, int):
            return NODE_WEIGHT + value.bit_length() // 3
        if isinstance(value, (Mapping, *_CONTAINERS)):
            return self._weigh_container(value)
        if isinstance(value, (KeysView, ItemsView, ValuesView)):
            return NODE_WEIGHT + sum(map(self.weigh, value))
        return NODE_WEIGHT

    def _weigh_container(self, value: Any) -> int:
        if (known := self._weights.get(id(value))) is not None:
            return known[1]
        weight = NODE_WEIGHT
        items = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
        for item in items:
            weight += NODE_WEIGHT + len(item) if type(item) is str else self.weigh(item)
            self.check(weight)
        self.tick()
        self._weights[id(value)] = (value, weight)
        return weight
