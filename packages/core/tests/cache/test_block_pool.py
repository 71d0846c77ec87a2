import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from octavo.cache.block_pool import BlockPool

PARENT = b"parent"


def test_hands_out_every_block_but_the_null_block() -> None:
    pool = BlockPool(5)
    assert sorted(pool.allocate(5)) == [1, 2, 3, 4, 5]
    assert pool.num_free == 0
    with pytest.raises(AssertionError, match="1 blocks asked for, 0 free"):
        pool.allocate(1)


def test_a_released_block_keeps_its_hash_until_it_is_handed_out_again() -> None:
    pool = BlockPool(2)
    first, second = pool.allocate(2)
    pool.register(first, b"first", PARENT)
    pool.release([first])
    assert pool.lookup(b"first") == first
    assert pool.allocate(1) == [first]
    assert pool.lookup(b"first") is None
    assert pool.reference_count(second) == 1


def test_blocks_without_a_hash_go_before_cached_ones_and_those_in_lru_order() -> None:
    pool = BlockPool(4)
    blocks = pool.allocate(4)
    for block in blocks[:3]:
        pool.register(block, bytes([block]), PARENT)
    pool.release([blocks[1], blocks[2], blocks[0], blocks[3]])
    assert pool.allocate(4) == [blocks[3], blocks[1], blocks[2], blocks[0]]


def test_a_touched_block_leaves_the_queue_and_comes_back_as_the_youngest() -> None:
    pool = BlockPool(3)
    blocks = pool.allocate(3)
    for block in blocks:
        pool.register(block, bytes([block]), PARENT)
    pool.release(blocks)
    pool.touch([blocks[0]])
    assert pool.num_free == 2
    pool.touch([blocks[0]])
    pool.release([blocks[0]])
    assert pool.num_free == 2
    pool.release([blocks[0]])
    pool.check_integrity()
    assert pool.allocate(3) == [blocks[1], blocks[2], blocks[0]]


def test_the_first_block_of_a_hash_keeps_it() -> None:
    pool = BlockPool(2)
    first, second = pool.allocate(2)
    assert pool.register(first, b"same", PARENT)
    assert not pool.register(second, b"same", PARENT)
    assert pool.lookup(b"same") == first
    pool.check_integrity()


def test_a_withdrawn_block_is_not_found_and_is_handed_out_first() -> None:
    pool = BlockPool(3)
    blocks = pool.allocate(3)
    for block in blocks:
        pool.register(block, bytes([block]), PARENT)
    pool.release(blocks)
    pool.withdraw(blocks[2])
    pool.withdraw(blocks[2])
    pool.check_integrity()
    assert pool.lookup(bytes([blocks[2]])) is None
    assert pool.allocate(1) == [blocks[2]]


def test_releasing_what_nobody_holds_is_a_bug() -> None:
    pool = BlockPool(2)
    block = pool.allocate(1)
    pool.release(block)
    with pytest.raises(AssertionError, match="not held"):
        pool.release(block)


def _lose_a_count(pool: Any) -> None:
    pool._references[1] = 0


def _break_a_link(pool: Any) -> None:
    pool._next[pool._previous[0]] = 3


def _detach_a_ring(pool: Any) -> None:
    before, block, after = 0, pool._next[0], pool._next[pool._next[0]]
    pool._next[before], pool._previous[after] = after, before
    pool._next[block] = pool._previous[block] = block


def _swap_hashes(pool: Any) -> None:
    pool._hashes[1], pool._hashes[2] = pool._hashes[2], pool._hashes[1]


def _forget_a_hash(pool: Any) -> None:
    pool._hashes[1] = None


def _hand_out_the_null_block(pool: Any) -> None:
    pool._references[0] = 1


@pytest.mark.parametrize("fault", [_lose_a_count, _break_a_link, _detach_a_ring, _swap_hashes, _forget_a_hash, _hand_out_the_null_block])
def test_the_integrity_check_finds(fault: Callable[[Any], None]) -> None:
    pool = BlockPool(8)
    for block in pool.allocate(3):
        pool.register(block, bytes([block]), PARENT)
    pool.check_integrity()
    fault(pool)
    with pytest.raises(AssertionError):
        pool.check_integrity()


@pytest.mark.slow
def test_a_million_blocks_are_made_in_two_seconds() -> None:
    start = time.perf_counter()
    BlockPool(1_000_000)
    assert time.perf_counter() - start < 2


class PoolMachine(RuleBasedStateMachine):
    """The pool beside lists and dictionaries: `queue` holds unused blocks in the order in which they must be handed out."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(9)
        self.queue = list(range(1, 10))
        self.held: list[int] = []
        self.hashes: dict[int, bytes] = {}

    def _enqueue(self, block: int) -> None:
        self.queue.insert(len(self.queue) if block in self.hashes else 0, block)

    @rule(count=st.integers(0, 5))
    def allocate(self, count: int) -> None:
        count = min(count, len(self.queue))
        expected, self.queue = self.queue[:count], self.queue[count:]
        assert self.pool.allocate(count) == expected
        self.held += expected
        for block in expected:
            self.hashes.pop(block, None)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.held:
            block = data.draw(st.sampled_from(self.held))
            self.pool.release([block])
            self.held.remove(block)
            if block not in self.held:
                self._enqueue(block)

    @rule(data=st.data(), name=st.binary(min_size=1, max_size=1))
    def register(self, data: st.DataObject, name: bytes) -> None:
        bare = sorted(set(self.held) - set(self.hashes))
        if bare:
            block = data.draw(st.sampled_from(bare))
            assert self.pool.register(block, name, PARENT) == (name not in self.hashes.values())
            if name not in self.hashes.values():
                self.hashes[block] = name

    @rule(data=st.data())
    def find_and_touch(self, data: st.DataObject) -> None:
        if self.hashes:
            block, name = data.draw(st.sampled_from(sorted(self.hashes.items())))
            assert self.pool.lookup(name) == block
            self.pool.touch([block])
            self.held.append(block)
            if block in self.queue:
                self.queue.remove(block)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if self.hashes:
            block = data.draw(st.sampled_from(sorted(self.hashes)))
            self.pool.withdraw(block)
            del self.hashes[block]
            if block in self.queue:
                self.queue.remove(block)
                self._enqueue(block)

    @invariant()
    def agrees(self) -> None:
        self.pool.check_integrity()
        assert self.pool.num_free == len(self.queue)
        assert {block: name for block, name, _ in self.pool.registered()} == self.hashes
        assert all(self.pool.reference_count(block) == self.held.count(block) for block in range(1, 10))


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPoolAgainstLists = PoolMachine.TestCase
