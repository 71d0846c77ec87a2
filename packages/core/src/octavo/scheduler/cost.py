"""What tokens of a prompt cost: the further back they look, the more."""

import math
from typing import NamedTuple

LEAST_CHUNK = 16
"""Tokens of a prompt that a step runs in any case, if it has as many left: below, a step is hardly faster."""


class Chunk(NamedTuple):
    """Tokens of a prompt that a step runs, and what they take of its budget besides."""

    num_tokens: int
    extra: int


def cut_chunk(left: int, context: int, *, budget: int, most: int, scale: int) -> Chunk:
    """The next of `left` tokens of a prompt behind `context` others that a step with `budget` runs, at most `most` of them."""
    count, affordable = min(left, most), affordable_tokens(budget, context, scale)
    if count > affordable:
        # Nothing is left for prompts behind it, which may come to share what it is computing.
        return Chunk(affordable, budget - affordable)
    return Chunk(count, min(extra_cost(count, context, scale), budget - count))


def affordable_tokens(budget: int, context: int, scale: int) -> int:
    """How many tokens of a prompt behind `context` others cost `budget`, where the n-th costs 1 + (context + n) / scale; at most `budget`.

    `scale` 0: each costs one.
    """
    if not scale:
        return budget
    first = 1 + context / scale
    count = int(scale * (math.sqrt(first * first + 2 * budget / scale) - first))
    return min(budget, max(LEAST_CHUNK, count))


def extra_cost(count: int, context: int, scale: int) -> int:
    """What `count` tokens behind `context` others cost more than `count`."""
    return round(count * (context + count / 2) / scale) if scale else 0
