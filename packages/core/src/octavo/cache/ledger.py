"""Who holds how much of the pool for how long: block-seconds by tenant."""

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from weakref import WeakValueDictionary

PARTS = 720_720
"""Parts of a block: divisible by 1 to 16, so that up to 16 holders share it evenly; with more, a part or so goes to one of them."""

NANOSECONDS = 1_000_000_000


class _Account:
    """What a tenant holds, in parts of blocks, and the time integral of it up to `since`."""

    __slots__ = ("held", "integral", "since", "sole")

    def __init__(self, now: int) -> None:
        self.held = 0
        self.integral = 0
        self.since = now
        self.sole = _Sharing({self: 1})

    def change(self, parts: int, now: int) -> None:
        """Hold more or, with a negative number, less from now on."""
        self.integral += self.held * (now - self.since)
        self.since = now
        self.held += parts


class _Sharing:
    """A way to hold a block: requests of each tenant, and the parts that fall to the tenant. Blocks held alike have one in common."""

    __slots__ = ("__weakref__", "counts", "parts")

    def __init__(self, counts: dict[_Account, int]) -> None:
        total = sum(counts.values())
        parts = [PARTS * count // total for count in counts.values()]
        parts[0] += PARTS - sum(parts)
        self.counts = counts
        self.parts = tuple(zip(counts, parts, strict=True))


class BlockLedger:
    """Integrates what tenants hold over time, exactly and in integers.

    A block that several requests hold is divided among them in equal parts, so that at any moment the tenants together hold the
    pool's blocks in use, and their block-seconds add up to the time integral of those. Nothing is done as time passes: an account is
    brought up to date when what it holds changes, and when it is read. Neighbouring blocks that are held alike, as those of a shared
    prefix are, cost one change of the accounts together.
    """

    def __init__(self, num_blocks: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """Make the books of a pool whose blocks have ids 1 to `num_blocks`; `clock` gives nanoseconds."""
        self._clock = clock
        self._accounts: dict[str, _Account] = {}
        self._sharings: list[_Sharing | None] = [None] * (num_blocks + 1)
        self._known: WeakValueDictionary[frozenset[tuple[_Account, int]], _Sharing] = WeakValueDictionary()

    @property
    def num_held(self) -> int:
        """Blocks that tenants hold in all."""
        parts = sum(account.held for account in self._accounts.values())
        assert parts % PARTS == 0, "a part of a block is held by nobody"
        return parts // PARTS

    def take(self, tenant: str, blocks: Sequence[int]) -> None:
        """A request of a tenant begins to hold blocks that nobody holds."""
        now, sharings = self._clock(), self._sharings
        account = self._accounts.get(tenant) or self._open(tenant, now)
        sole = account.sole
        for block in blocks:
            sharings[block] = sole
        account.change(PARTS * len(blocks), now)

    def join(self, tenant: str, blocks: Sequence[int]) -> None:
        """A request of a tenant begins to hold blocks, each given once, that others may hold."""
        self._change(tenant, blocks, 1)

    def drop(self, tenant: str, blocks: Sequence[int]) -> None:
        """A request of a tenant no longer holds blocks that it held."""
        self._change(tenant, blocks, -1)

    def block_seconds(self) -> dict[str, float]:
        """Blocks held times seconds of each tenant so far."""
        now = self._clock()
        for account in self._accounts.values():
            account.change(0, now)
        return {tenant: account.integral / (PARTS * NANOSECONDS) for tenant, account in self._accounts.items()}

    def _open(self, tenant: str, now: int) -> _Account:
        account = self._accounts[tenant] = _Account(now)
        self._known[frozenset({(account, 1)})] = account.sole
        return account

    def _change(self, tenant: str, blocks: Sequence[int], difference: int) -> None:
        now, sharings = self._clock(), self._sharings
        account = self._accounts.get(tenant) or self._open(tenant, now)
        for before, run in groupby(blocks, sharings.__getitem__):
            after, count = self._after(before, account, difference), 0
            for block in run:
                sharings[block] = after
                count += 1
            for holder, parts in before.parts if before is not None else ():
                holder.change(-parts * count, now)
            for holder, parts in after.parts if after is not None else ():
                holder.change(parts * count, now)

    def _after(self, before: _Sharing | None, account: _Account, difference: int) -> _Sharing | None:
        """How a block is held when a tenant holds it once more or once less; None where nobody does."""
        if before is None:
            assert difference > 0, "a block is dropped that nobody holds"
            return account.sole
        counts = dict(before.counts)
        counts[account] = counts.get(account, 0) + difference
        assert counts[account] >= 0, "a block is dropped by a tenant that does not hold it"
        if not counts[account]:
            del counts[account]
        if not counts:
            return None
        key = frozenset(counts.items())
        sharing = self._known.get(key)
        if sharing is None:
            sharing = self._known[key] = _Sharing(counts)
        return sharing
