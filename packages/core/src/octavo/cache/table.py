"""The blocks that one request holds, and the hashes of its prefix."""

import sys
from collections.abc import Sequence

from octavo.cache.prefix import PrefixChain

NEVER = sys.maxsize


class RequestBlocks:
    """Block tables of one request, one a KV group, and how far its blocks carry a hash.

    Attributes:
        tables: block ids of each group, in the order of positions.
        chains: hashes of full blocks for each group; groups of one block size share a chain. Empty where nothing is shared.
        num_registered: blocks of each group that were offered to the pool under their hash, or found there.
        capacity: tokens that the tables have room for.
        next_full: number of tokens at which the next block can be registered; `NEVER` where none will.
    """

    __slots__ = ("_block_sizes", "capacity", "chains", "next_full", "num_registered", "tables")

    def __init__(self, block_sizes: Sequence[int]) -> None:
        self._block_sizes = block_sizes
        self.tables: list[list[int]] = [[] for _ in block_sizes]
        self.chains: list[PrefixChain] = []
        self.num_registered = [0] * len(block_sizes)
        self.capacity = 0
        self.next_full = NEVER

    def missing(self, num_tokens: int) -> list[int]:
        """Blocks that each group lacks for `num_tokens`."""
        return [max(0, -(-num_tokens // size) - len(table)) for size, table in zip(self._block_sizes, self.tables, strict=True)]

    def append(self, blocks: Sequence[Sequence[int]]) -> None:
        """Add blocks to the end of each group's table."""
        for table, new in zip(self.tables, blocks, strict=True):
            table.extend(new)
        self.capacity = min(len(table) * size for table, size in zip(self.tables, self._block_sizes, strict=True))

    def mark_registered(self, num_tokens: int) -> None:
        """Note that the full blocks of the first `num_tokens` are registered."""
        self.num_registered = [num_tokens // size for size in self._block_sizes]
        self.next_full = min((count + 1) * size for count, size in zip(self.num_registered, self._block_sizes, strict=True))

    def take_all(self) -> list[int]:
        """Empty the tables; returns what they held, latest positions first, so that a prefix outlives its tail."""
        if len(self.tables) == 1:
            blocks = self.tables[0][::-1]
        else:
            starts = [
                (index * size, block)
                for size, table in zip(self._block_sizes, self.tables, strict=True)
                for index, block in enumerate(table)
            ]
            blocks = [block for _, block in sorted(starts, key=lambda start: -start[0])]
        self.tables = [[] for _ in self._block_sizes]
        self.num_registered = [0] * len(self._block_sizes)
        self.capacity, self.next_full = 0, NEVER
        return blocks
