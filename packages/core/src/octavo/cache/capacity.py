"""How many blocks requests take of a pool, and how long a request the pool can carry."""

import sys
from bisect import bisect_right
from collections.abc import Sequence

from octavo.cache.spec import KVGroup

UNLIMITED = sys.maxsize
"""Tokens that a request may have where every layer forgets: blocks never limit it."""


def blocks_per_request(groups: Sequence[KVGroup], num_tokens: int, *, max_step_tokens: int) -> int:
    """Whole blocks that a request of so many tokens holds at once at most, over all groups.

    Args:
        groups: of the model's layers.
        num_tokens: prompt and output.
        max_step_tokens: tokens of one request that a step runs at most; windows hold them beside what they look back on.
    """
    return sum(group.most_blocks(num_tokens, max_step_tokens) for group in groups)


def pool_tokens(groups: Sequence[KVGroup], num_blocks: int, *, max_step_tokens: int) -> int:
    """Length of the longest request that so many blocks can carry, at least 0; `UNLIMITED` where its length does not matter."""
    longest = num_blocks * max(group.block_size for group in groups)
    if all(group.spec.window is not None for group in groups) and _needed(groups, UNLIMITED, max_step_tokens) <= num_blocks:
        return UNLIMITED
    lengths = range(max(0, longest) + 1)
    return max(0, bisect_right(lengths, num_blocks, key=lambda tokens: _needed(groups, tokens, max_step_tokens)) - 1)


def max_concurrency(groups: Sequence[KVGroup], num_blocks: int, num_tokens: int, *, max_step_tokens: int) -> float:
    """How many requests of so many tokens the pool carries at once, each of whole blocks; the part of one that is left over counts too.

    One of them runs a step's tokens, the others one token each: the token budget is shared.
    """
    largest = blocks_per_request(groups, num_tokens, max_step_tokens=max_step_tokens)
    if num_blocks < largest:
        return num_blocks / largest
    return 1 + (num_blocks - largest) / blocks_per_request(groups, num_tokens, max_step_tokens=1)


def _needed(groups: Sequence[KVGroup], num_tokens: int, max_step_tokens: int) -> int:
    return blocks_per_request(groups, num_tokens, max_step_tokens=max_step_tokens)
