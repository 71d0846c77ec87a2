"""The longest prefix of a request that every KV group can serve from the cache; reads the pool and changes nothing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from octavo.cache.spec import KVGroup
from octavo.types import NULL_BLOCK

Lookup = Callable[[int], int | None]
"""Index of a full block -> the block that holds it, None where it is not cached."""


@dataclass(frozen=True)
class CachedPrefix:
    """The longest prefix of a request that every group has: its length in tokens and the blocks, `[groups][blocks]`.

    Null blocks stand where a window does not look back any more.
    """

    num_tokens: int
    block_ids: list[list[int]]


def longest_prefix(groups: Sequence[KVGroup], lookups: Sequence[Lookup], num_tokens: int) -> CachedPrefix:
    """Find it among the first `num_tokens`, of which every full block can be looked up in every group.

    A group that keeps every position has to have all blocks; one with a window only those that the token after the prefix looks back on.
    """
    alignment = math.lcm(*(group.block_size for group in groups))
    leading: dict[int, list[int]] = {}
    for index, (group, lookup) in enumerate(zip(groups, lookups, strict=True)):
        if group.spec.window is None:
            leading[index] = _leading_blocks(lookup, num_tokens // group.block_size)
            num_tokens = min(num_tokens, len(leading[index]) * group.block_size)
    num_tokens = _window_end(groups, lookups, num_tokens // alignment * alignment, alignment)
    block_ids = []
    for index, (group, lookup) in enumerate(zip(groups, lookups, strict=True)):
        count = num_tokens // group.block_size
        block_ids.append(leading[index][:count] if index in leading else _window_blocks(group, lookup, num_tokens))
    return CachedPrefix(num_tokens, block_ids)


def _leading_blocks(lookup: Lookup, count: int) -> list[int]:
    blocks = []
    for index in range(count):
        block = lookup(index)
        if block is None:
            break
        blocks.append(block)
    return blocks


def _window_end(groups: Sequence[KVGroup], lookups: Sequence[Lookup], longest: int, alignment: int) -> int:
    """The longest length up to `longest`, a multiple of `alignment`, for which every window has what it looks back on."""
    windows = [(group, lookup) for group, lookup in zip(groups, lookups, strict=True) if group.spec.window is not None]
    agreed = 0
    while agreed < len(windows):
        agreed = 0
        for group, lookup in windows:
            end = _end_in_window(group, lookup, longest) // alignment * alignment
            agreed += end == longest
            longest = end
    return longest


def _end_in_window(group: KVGroup, lookup: Lookup, longest: int) -> int:
    """The longest whole number of blocks up to `longest` tokens whose window is there in one group, in tokens."""
    count = block = longest // group.block_size
    while block > group.first_block(count * group.block_size):
        block -= 1
        if lookup(block) is None:
            count = block
    return count * group.block_size


def _window_blocks(group: KVGroup, lookup: Lookup, num_tokens: int) -> list[int]:
    first = group.first_block(num_tokens)
    blocks = [NULL_BLOCK] * first
    for index in range(first, num_tokens // group.block_size):
        block = lookup(index)
        assert block is not None, "a window's block was there a moment ago"
        blocks.append(block)
    return blocks
