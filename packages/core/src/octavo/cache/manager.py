"""KV memory for requests: block tables for each KV group, all from one pool, shared where prefixes are equal."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from octavo.cache.block_pool import BlockPool
from octavo.cache.capacity import pool_tokens
from octavo.cache.ledger import BlockLedger
from octavo.cache.lookup import CachedPrefix, Lookup, longest_prefix
from octavo.cache.prefix import HASH_BYTES, SECRET_BYTES, Extra, PrefixChain, root_hash, unsound_blocks
from octavo.cache.spec import KVGroup
from octavo.cache.table import NEVER, RequestBlocks
from octavo.request import Request
from octavo.types import NULL_BLOCK


class KVCacheManager:
    """Gives blocks to requests and takes them back. Only the scheduler calls it, and it never changes a request.

    A request is known from its first call here until `forget`. With the prefix cache on, full blocks are registered under their hash;
    with it off, only the prompts of requests that carry a `group_salt` are, which nobody outside their group can hit.

    Blocks that a window has passed go back to the pool while their request runs, and null blocks take their places in its table. They
    keep their hash like any other block that nobody uses.

    Attributes:
        pool: the blocks.
        ledger: which tenant holds how much of it for how long.
        max_tokens: length of the longest request that could run with the whole pool to itself.
    """

    def __init__(
        self,
        groups: Sequence[KVGroup],
        num_blocks: int,
        *,
        max_step_tokens: int,
        enable_prefix_caching: bool,
        fingerprint: bytes = b"",
        secret: bytes | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Make the books of an empty pool.

        Args:
            groups: of the model's layers.
            num_blocks: of the pool, the null block not counted.
            max_step_tokens: tokens of one request that a step runs at most.
            enable_prefix_caching: whether requests share blocks with others outside their group.
            fingerprint: names the model and everything else that KV depends on.
            secret: that hashes hang on; drawn anew where none is given.
            clock: nanoseconds, for the ledger.
        """
        assert groups
        self.pool = BlockPool(num_blocks)
        self.ledger = BlockLedger(num_blocks, clock)
        self.enable_prefix_caching = enable_prefix_caching
        self.max_tokens = pool_tokens(groups, num_blocks, max_step_tokens=max_step_tokens)
        self._groups = tuple(groups)
        self._block_sizes = [group.block_size for group in groups]
        self._max_step_tokens = max_step_tokens
        self._root = root_hash(secret or secrets.token_bytes(SECRET_BYTES), fingerprint)
        self._suffixes = [b"" if index == 0 else index.to_bytes(2, "little") for index in range(len(groups))]
        self._held: dict[str, RequestBlocks] = {}

    @property
    def usage(self) -> float:
        """Share of the blocks that requests hold."""
        return self.pool.num_in_use / self.pool.num_blocks

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds, cached ones included."""
        return self.pool.num_free

    def find_cached(self, request: Request) -> CachedPrefix:
        """Look up the longest prefix of a request that holds no blocks yet: at most all its known tokens but the last."""
        held = self._open(request)
        if not held.chains:
            return CachedPrefix(0, [[] for _ in self._groups])
        longest = len(request.token_ids) - 1
        for chain in held.chains:
            chain.extend(request.token_ids, longest // chain.block_size)
        lookups = [self._lookup(chain.hashes, suffix) for chain, suffix in zip(held.chains, self._suffixes, strict=True)]
        return longest_prefix(self._groups, lookups, longest)

    def allocate(self, request: Request, prefix: CachedPrefix, num_tokens: int, *, headroom: int = 0) -> list[list[int]] | None:
        """Give a request that holds nothing its cached prefix and blocks for its first `num_tokens`: its tables, `[groups][blocks]`.

        None, and nothing changes, unless the blocks that it holds at once while all its known tokens are computed would fit now and
        `headroom` more a group stay free: a request that is let in and runs out at once only costs the others.
        """
        held = self._open(request)
        assert not held.capacity, f"request {request.request_id} holds blocks already"
        if self._most_taken(held, request, prefix, num_tokens) + headroom * len(self._groups) > self.pool.num_free:
            return None
        for blocks in prefix.block_ids:
            found = [block for block in blocks if block != NULL_BLOCK]
            self.pool.touch(found)
            self.ledger.join(request.tenant, found)
        held.append(prefix.block_ids)
        held.append(self._allocate(request, held.missing(num_tokens)))
        held.pass_by(prefix.num_tokens)
        if held.chains:
            held.mark_registered(prefix.num_tokens)
        return [list(table) for table in held.tables]

    def extend(self, request: Request, num_tokens: int) -> list[list[int]] | None:
        """Make room for `num_tokens` in all: the new blocks, `[groups][new blocks]`; None where too few are free.

        What windows have passed is given back first, in either case: whoever reads it was scheduled before whoever writes it next.
        """
        held = self._held[request.request_id]
        if request.num_scheduled_tokens >= held.next_passed:
            self._release(request, held.pass_by(request.num_scheduled_tokens))
        if num_tokens <= held.capacity:
            return [[] for _ in held.tables] if len(held.tables) > 1 else [[]]
        counts = held.missing(num_tokens)
        if sum(counts) > self.pool.num_free:
            return None
        blocks = self._allocate(request, counts)
        held.append(blocks)
        return blocks

    def register(self, request: Request) -> None:
        """Let others find the full blocks whose tokens are known and whose KV is written by the steps made so far."""
        held = self._held[request.request_id]
        num_tokens, num_known = request.num_scheduled_tokens, len(request.token_ids)
        if num_tokens < held.next_full or num_known < held.next_full:
            return
        num_tokens = min(num_tokens, num_known)
        if not self.enable_prefix_caching:
            num_tokens = min(num_tokens, request.num_prompt_tokens)
        for index, (size, suffix, chain) in enumerate(zip(self._block_sizes, self._suffixes, held.chains, strict=True)):
            count = num_tokens // size
            chain.extend(request.token_ids, count)
            for position in range(held.num_registered[index], count):
                block = held.tables[index][position]
                if block != NULL_BLOCK:
                    self.pool.register(block, chain.hashes[position] + suffix, chain.parent(position) + suffix)
        held.mark_registered(num_tokens)
        if not self.enable_prefix_caching and num_tokens == request.num_prompt_tokens:
            held.next_full = NEVER

    def share_in_group(self, request: Request) -> None:
        """Register what a request holds already, now that it has got a `group_salt`."""
        held = self._held.get(request.request_id)
        if held is None or held.chains:
            return
        held.chains = self._make_chains(request)
        if held.capacity:
            held.mark_registered(0)
            self.register(request)

    def free(self, request: Request) -> None:
        """Take a request's blocks back; its hashes are kept, as it will come again."""
        self._release(request, self._held[request.request_id].take_all())

    def forget(self, request: Request) -> None:
        """Take a request's blocks back, if it holds any; it will not come again."""
        held = self._held.pop(request.request_id, None)
        if held is not None:
            self._release(request, held.take_all())

    def withdraw(self, request: Request) -> None:
        """Let nobody find the blocks of a request whose KV cannot be trusted, nor what hangs on them; O(registered blocks).

        Requests that run on such blocks go on, but register no more.
        """
        chains = self._make_chains(request)
        if not chains:
            return
        bad: set[bytes] = set()
        for chain in chains:
            chain.extend(request.token_ids, len(request.token_ids) // chain.block_size)
            bad.update(chain.hashes)
        # Whatever group a block belongs to, its tokens are those of its hash: groups that keep every position vouch for windows.
        registered = ((block, block_hash[:HASH_BYTES], parent[:HASH_BYTES]) for block, block_hash, parent in self.pool.registered())
        unsound = set(unsound_blocks(registered, [self._root], bad))
        for block in unsound:
            self.pool.withdraw(block)
        for held in self._held.values():
            if any(not unsound.isdisjoint(table) for table in held.tables) or _hangs_on_passed(held, bad):
                held.next_full = NEVER

    def reset_prefix_cache(self) -> bool:
        """Forget every prefix. False, and nothing changes, while requests hold blocks."""
        if self.pool.num_in_use:
            return False
        for block, _, _ in list(self.pool.registered()):
            self.pool.withdraw(block)
        return True

    def check_integrity(self) -> None:
        """Assert that the pool's books balance and agree with the block tables; O(num_blocks)."""
        self.pool.check_integrity()
        for held in self._held.values():
            held.check_integrity()
        holders = Counter(block for held in self._held.values() for table in held.tables for block in table if block != NULL_BLOCK)
        assert len(holders) == self.pool.num_in_use == self.ledger.num_held, "blocks are held by nobody"
        for block, count in holders.items():
            assert self.pool.reference_count(block) == count, f"block {block} is held {count} times but counted otherwise"

    def _open(self, request: Request) -> RequestBlocks:
        held = self._held.get(request.request_id)
        if held is None:
            held = self._held[request.request_id] = RequestBlocks(self._groups)
            held.chains = self._make_chains(request)
        return held

    def _allocate(self, request: Request, counts: Sequence[int]) -> list[list[int]]:
        """New blocks for a request, `[groups][blocks]`."""
        groups = [self.pool.allocate(count) for count in counts]
        for blocks in groups:
            self.ledger.take(request.tenant, blocks)
        return groups

    def _release(self, request: Request, blocks: Sequence[int]) -> None:
        self.pool.release(blocks)
        self.ledger.drop(request.tenant, blocks)

    def _make_chains(self, request: Request) -> list[PrefixChain]:
        if not self.enable_prefix_caching and request.group_salt is None:
            return []
        extras: list[Extra] = []
        if request.cache_salt is not None:
            extras.append(("salt", request.cache_salt.encode()))
        if request.group_salt is not None:
            extras.append(("group", request.group_salt))
        by_size = {size: PrefixChain(self._root, size, extras) for size in set(self._block_sizes)}
        return [by_size[size] for size in self._block_sizes]

    def _lookup(self, hashes: Sequence[bytes], suffix: bytes) -> Lookup:
        return lambda index: self.pool.lookup(hashes[index] + suffix)

    def _most_taken(self, held: RequestBlocks, request: Request, prefix: CachedPrefix, num_tokens: int) -> int:
        """Free blocks that a request takes at once at most while its known tokens, or `num_tokens` if they are more, are computed."""
        known, most = max(num_tokens, len(request.token_ids)), 0
        for group, missing, found in zip(self._groups, held.missing(known), prefix.block_ids, strict=True):
            unused = sum(block != NULL_BLOCK and self.pool.reference_count(block) == 0 for block in found)
            most += min(missing - len(found) + unused, group.most_blocks(known, self._max_step_tokens))
        return most


def _hangs_on_passed(held: RequestBlocks, bad: AbstractSet[bytes]) -> bool:
    """Whether a request may have read KV of bad blocks that its windows have passed since."""
    has_passed = any(NULL_BLOCK in table[:1] for table in held.tables)
    return has_passed and any(not bad.isdisjoint(chain.hashes) for chain in held.chains)
