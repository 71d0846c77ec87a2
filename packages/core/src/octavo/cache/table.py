"""The blocks that one request holds, and the hashes of its prefix."""

import sys
from collections.abc import Sequence

from octavo.cache.prefix import PrefixChain
from octavo.cache.spec import KVGroup
from octavo.types import NULL_BLOCK

NEVER = sys.maxsize


class RequestBlocks:
    """Block tables of one request, one a KV group, and how far its blocks carry a hash.

    Attributes:
        tables: block ids of each group, in the order of positions; null blocks where a window has passed.
        chains: hashes of full blocks for each group; groups of one block size share a chain. Empty where nothing is shared.
        num_registered: blocks of each group that were offered to the pool under their hash, or found there.
        capacity: tokens that the tables have room for.
        next_full: number of tokens at which the next block can be registered; `NEVER` where none will.
        next_passed: the first position from which on a block is not read any more that the request still holds; `NEVER` without a window.
    """

    __slots__ = ("_groups", "_num_passed", "capacity", "chains", "next_full", "next_passed", "num_registered", "tables")

    def __init__(self, groups: Sequence[KVGroup]) -> None:
        self._groups = groups
        self.chains: list[PrefixChain] = []
        self._empty()

    def missing(self, num_tokens: int) -> list[int]:
        """Blocks that each group lacks for `num_tokens`."""
        return [max(0, -(-num_tokens // group.block_size) - len(table)) for group, table in zip(self._groups, self.tables, strict=True)]

    def append(self, blocks: Sequence[Sequence[int]]) -> None:
        """Add blocks to the end of each group's table."""
        for table, new in zip(self.tables, blocks, strict=True):
            table.extend(new)
        self.capacity = min(len(table) * group.block_size for table, group in zip(self.tables, self._groups, strict=True))

    def pass_by(self, position: int) -> list[int]:
        """Take out the blocks that tokens from `position` on do not read; returns what they were, latest positions first."""
        passed: list[int] = []
        for index, (group, table) in enumerate(zip(self._groups, self.tables, strict=True)):
            first = min(group.first_block(position), len(table))
            for place in range(self._num_passed[index], first):
                if table[place] != NULL_BLOCK:
                    passed.append(table[place])
                    table[place] = NULL_BLOCK
            self._num_passed[index] = max(first, self._num_passed[index])
        self.next_passed = self._next_passed()
        return passed[::-1]

    def mark_registered(self, num_tokens: int) -> None:
        """Note that the full blocks of the first `num_tokens` are registered."""
        self.num_registered = [num_tokens // group.block_size for group in self._groups]
        self.next_full = min((count + 1) * group.block_size for count, group in zip(self.num_registered, self._groups, strict=True))

    def take_all(self) -> list[int]:
        """Empty the tables; returns what they held, latest positions first, so that a prefix outlives its tail."""
        if len(self.tables) == 1:
            blocks = self.tables[0][self._num_passed[0] :][::-1]
        else:
            starts = [
                (place * group.block_size, table[place])
                for group, table, first in zip(self._groups, self.tables, self._num_passed, strict=True)
                for place in range(first, len(table))
            ]
            blocks = [block for _, block in sorted(starts, key=lambda start: -start[0])]
        self._empty()
        return blocks

    def check_integrity(self) -> None:
        """Assert that null blocks stand exactly where windows have passed."""
        for table, first in zip(self.tables, self._num_passed, strict=True):
            assert not any(table[:first]), "a block is held that its window has passed"
            assert NULL_BLOCK not in table[first:], "a block is missing that is still read"

    def _empty(self) -> None:
        self.tables: list[list[int]] = [[] for _ in self._groups]
        self.num_registered = [0] * len(self._groups)
        self._num_passed = [0] * len(self._groups)
        self.capacity, self.next_full, self.next_passed = 0, NEVER, self._next_passed()

    def _next_passed(self) -> int:
        passed = (group.passed_at(first) for group, first in zip(self._groups, self._num_passed, strict=True))
        return min((position for position in passed if position is not None), default=NEVER)
