"""Block-seconds: who pays for which block, and that nothing is lost."""

from collections import Counter, defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.cache.ledger import NANOSECONDS, BlockLedger

NUM_BLOCKS = 6
TENANTS = ["", "a", "b"]


class Clock:
    """Nanoseconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 5

    def __call__(self) -> int:
        return self.now

    def pass_seconds(self, seconds: int) -> None:
        self.now += seconds * NANOSECONDS


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> BlockLedger:
    return BlockLedger(NUM_BLOCKS, clock)


def test_a_tenant_pays_for_what_it_holds_while_it_holds_it(ledger: BlockLedger, clock: Clock) -> None:
    clock.pass_seconds(9)
    ledger.take("a", [1, 2])
    clock.pass_seconds(3)
    ledger.drop("a", [2])
    clock.pass_seconds(1)
    assert ledger.block_seconds() == {"a": 7.0}
    ledger.drop("a", [1])
    clock.pass_seconds(100)
    assert ledger.block_seconds() == {"a": 7.0}


def test_a_shared_block_is_divided_among_its_holders(ledger: BlockLedger, clock: Clock) -> None:
    ledger.take("a", [1])
    ledger.join("a", [1])
    ledger.join("b", [1])
    clock.pass_seconds(6)
    assert ledger.block_seconds() == {"a": 4.0, "b": 2.0}
    ledger.drop("a", [1])
    clock.pass_seconds(6)
    assert ledger.block_seconds() == {"a": 7.0, "b": 5.0}
    assert ledger.num_held == 1


def test_a_block_that_is_given_back_to_one_tenant_is_its_own_again(ledger: BlockLedger, clock: Clock) -> None:
    ledger.take("a", [1, 2])
    ledger.join("b", [1])
    ledger.drop("b", [1])
    clock.pass_seconds(2)
    assert ledger.block_seconds() == {"a": 4.0, "b": 0.0}


def test_whoever_drops_what_it_does_not_hold_has_a_bug(ledger: BlockLedger) -> None:
    ledger.take("a", [1])
    with pytest.raises(AssertionError, match="nobody holds"):
        ledger.drop("a", [2])
    with pytest.raises(AssertionError, match="does not hold it"):
        ledger.drop("b", [1])


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(TENANTS), st.sets(st.integers(1, NUM_BLOCKS), min_size=1), st.booleans()), max_size=40
    )
)
def test_tenants_add_up_to_the_blocks_in_use(moves: list[tuple[int, str, set[int], bool]]) -> None:
    clock = Clock()
    ledger = BlockLedger(NUM_BLOCKS, clock)
    holders: Counter[tuple[str, int]] = Counter()
    expected: defaultdict[str, Fraction] = defaultdict(Fraction)
    for seconds, tenant, blocks, joins in moves:
        clock.pass_seconds(seconds)
        for (holder, block), count in holders.items():
            total = sum(number for (_, other), number in holders.items() if other == block)
            expected[holder] += Fraction(count * seconds, total or 1)
        if joins:
            ledger.join(tenant, sorted(blocks))
            holders.update((tenant, block) for block in blocks)
        else:
            held = sorted(block for block in blocks if holders[tenant, block])
            ledger.drop(tenant, held)
            holders.subtract((tenant, block) for block in held)
        assert ledger.num_held == len({block for (_, block), count in holders.items() if count})
        for name, seconds_held in ledger.block_seconds().items():
            assert seconds_held == pytest.approx(float(expected[name]), rel=1e-4)
