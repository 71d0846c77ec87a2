"""Who holds which block of KV memory, and which prefix a block carries."""

from array import array
from collections.abc import Iterable, Iterator

import numpy as np

from octavo.types import NULL_BLOCK


class BlockPool:
    """Blocks with reference counts, a queue of the free ones in LRU order, and a map from prefix hash to block.

    A block is free (no reference, no hash), cached and unused (no reference, a hash) or in use; free ones are handed out before
    cached ones, and of these the one longest unused goes first. A released block keeps its content and its hash until it is handed
    out again. Whoever calls with a block that it does not hold has a bug: such calls fail an assertion.

    The queue is a doubly linked list in two integer arrays with the null block as its sentinel, so that a free block costs no object.

    Attributes:
        num_blocks: blocks with ids 1 to `num_blocks`; the null block is never handed out and not counted.
        num_free: blocks without a reference, cached ones included.
    """

    def __init__(self, num_blocks: int) -> None:
        assert num_blocks > 0
        self.num_blocks = num_blocks
        self.num_free = num_blocks
        self._next = array("i", range(1, num_blocks + 2))
        self._next[num_blocks] = NULL_BLOCK
        self._previous = array("i", range(-1, num_blocks))
        self._previous[NULL_BLOCK] = num_blocks
        self._references = array("i", bytes(4 * (num_blocks + 1)))
        self._hashes: list[bytes | None] = [None] * (num_blocks + 1)
        self._parents: list[bytes | None] = [None] * (num_blocks + 1)
        self._blocks: dict[bytes, int] = {}

    @property
    def num_in_use(self) -> int:
        """Blocks that somebody holds."""
        return self.num_blocks - self.num_free

    @property
    def num_registered(self) -> int:
        """Blocks with a hash, in use or not."""
        return len(self._blocks)

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks, at most `num_free`, with one reference each; their old content loses its hash."""
        assert 0 <= count <= self.num_free, f"{count} blocks asked for, {self.num_free} free"
        following, blocks = self._next, []
        block = following[NULL_BLOCK]
        for _ in range(count):
            if self._hashes[block] is not None:
                self._drop_hash(block)
            self._references[block] = 1
            blocks.append(block)
            block = following[block]
        following[NULL_BLOCK] = block
        self._previous[block] = NULL_BLOCK
        self.num_free -= count
        return blocks

    def touch(self, blocks: Iterable[int]) -> None:
        """Add a reference to each block; unused ones leave the free queue."""
        for block in blocks:
            if self._references[block] == 0:
                self._unlink(block)
                self.num_free -= 1
            self._references[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Take a reference from each block; of those that nobody holds any more, the first is handed out again first."""
        for block in blocks:
            assert self._references[block] > 0, f"block {block} is released but not held"
            self._references[block] -= 1
            if self._references[block] == 0:
                self._link(block)
                self.num_free += 1

    def reference_count(self, block: int) -> int:
        """How many hold a block."""
        return self._references[block]

    def register(self, block: int, block_hash: bytes, parent: bytes) -> bool:
        """Let a held block be found by its hash; False, and nothing changes, where another block has this hash already."""
        assert self._references[block] > 0, f"block {block} is registered but not held"
        assert self._hashes[block] is None, f"block {block} has a hash already"
        if block_hash in self._blocks:
            return False
        self._blocks[block_hash] = block
        self._hashes[block] = block_hash
        self._parents[block] = parent
        return True

    def withdraw(self, block: int) -> None:
        """Take a block's hash away, so that nobody can find it; whoever holds it goes on holding it."""
        if self._hashes[block] is None:
            return
        self._drop_hash(block)
        if self._references[block] == 0:
            self._unlink(block)
            self._link(block)

    def lookup(self, block_hash: bytes) -> int | None:
        """Block that carries a hash."""
        return self._blocks.get(block_hash)

    def registered(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Every (block, hash, parent hash)."""
        for block_hash, block in self._blocks.items():
            parent = self._parents[block]
            assert parent is not None
            yield block, block_hash, parent

    def check_integrity(self) -> None:
        """Assert that free + cached and unused + in use == total, and that counts, links and hashes agree; O(num_blocks)."""
        references = np.frombuffer(self._references, dtype=np.intc)
        assert references[NULL_BLOCK] == 0, "the null block was handed out"
        assert not (references < 0).any(), "a block was released too often"
        unused = references == 0
        assert int(np.count_nonzero(unused[1:])) == self.num_free, "free blocks are miscounted"
        assert len(self._blocks) == len(self._hashes) - self._hashes.count(None), "hashes and blocks are not one to one"
        assert list(map(self._hashes.__getitem__, self._blocks.values())) == list(self._blocks), "a hash names the wrong block"
        self._check_queue(np.flatnonzero(unused))

    def _check_queue(self, members: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> None:
        """Assert that the queue holds exactly `members`, the null block among them, and those without a hash first."""
        following, previous = np.frombuffer(self._next, dtype=np.intc), np.frombuffer(self._previous, dtype=np.intc)
        assert (following[previous[members]] == members).all(), "a link backwards leads nowhere"
        assert (previous[following[members]] == members).all(), "a link forwards leads nowhere"
        cached = np.zeros(self.num_blocks + 1, dtype=bool)
        cached[np.fromiter(self._blocks.values(), dtype=np.intp, count=len(self._blocks))] = True
        wrong = cached[members] & ~cached[following[members]] & (following[members] != NULL_BLOCK)
        assert not wrong.any(), "a cached block would be handed out before one without a hash"
        length, links, block = 0, self._next, self._next[NULL_BLOCK]
        while block != NULL_BLOCK and length < len(members):
            length, block = length + 1, links[block]
        assert length == len(members) - 1, "the queue misses blocks"

    def _link(self, block: int) -> None:
        """Queue an unused block: behind all others if it is cached, before all others if it is not."""
        if self._hashes[block] is None:
            before, after = NULL_BLOCK, self._next[NULL_BLOCK]
        else:
            before, after = self._previous[NULL_BLOCK], NULL_BLOCK
        self._next[before] = self._previous[after] = block
        self._previous[block], self._next[block] = before, after

    def _unlink(self, block: int) -> None:
        before, after = self._previous[block], self._next[block]
        self._next[before], self._previous[after] = after, before

    def _drop_hash(self, block: int) -> None:
        block_hash = self._hashes[block]
        assert block_hash is not None
        del self._blocks[block_hash]
        self._hashes[block] = self._parents[block] = None
