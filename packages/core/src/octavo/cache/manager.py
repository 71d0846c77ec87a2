"""KV memory for requests: block tables for each KV group, all from one pool, shared where prefixes are equal."""

import math
import secrets
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from octavo.cache.block_pool import BlockPool
from octavo.cache.prefix import SECRET_BYTES, Extra, PrefixChain, root_hash, unsound_blocks
from octavo.cache.spec import KVGroup
from octavo.cache.table import NEVER, RequestBlocks
from octavo.request import Request


@dataclass(frozen=True)
class CachedPrefix:
    """The longest prefix of a request that every group has: its length in tokens and the blocks, `[groups][blocks]`."""

    num_tokens: int
    block_ids: list[list[int]]


class KVCacheManager:
    """Gives blocks to requests and takes them back. Only the scheduler calls it, and it never changes a request.

    A request is known from its first call here until `forget`. With the prefix cache on, full blocks are registered under their hash;
    with it off, only the prompts of requests that carry a `group_salt` are, which nobody outside their group can hit.

    Attributes:
        pool: the blocks.
        max_tokens: tokens that one request could hold with the whole pool to itself.
    """

    def __init__(
        self,
        groups: Sequence[KVGroup],
        num_blocks: int,
        *,
        enable_prefix_caching: bool,
        fingerprint: bytes = b"",
        secret: bytes | None = None,
    ) -> None:
        """`fingerprint` names the model and everything else that KV depends on; `secret` is drawn anew where none is given."""
        assert groups
        self.pool = BlockPool(num_blocks)
        self.enable_prefix_caching = enable_prefix_caching
        self._block_sizes = [group.block_size for group in groups]
        self._alignment = math.lcm(*self._block_sizes)
        self.max_tokens = _most_tokens(self._block_sizes, num_blocks)
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
            return CachedPrefix(0, [[] for _ in self._block_sizes])
        longest, found = len(request.token_ids) - 1, []
        for size, suffix, chain in zip(self._block_sizes, self._suffixes, held.chains, strict=True):
            chain.extend(request.token_ids, longest // size)
            blocks = self._find(chain.hashes[: longest // size], suffix)
            found.append(blocks)
            longest = min(longest, len(blocks) * size)
        num_tokens = longest // self._alignment * self._alignment
        return CachedPrefix(num_tokens, [blocks[: num_tokens // size] for blocks, size in zip(found, self._block_sizes, strict=True)])

    def allocate(self, request: Request, prefix: CachedPrefix, num_tokens: int, *, headroom: int = 0) -> list[list[int]] | None:
        """Give a request that holds nothing its cached prefix and blocks for its first `num_tokens`: its tables, `[groups][blocks]`.

        None, and nothing changes, unless the blocks of all its known tokens would fit now and `headroom` more a group stay free: a
        request that is let in and runs out at once only costs the others.
        """
        held = self._open(request)
        assert not held.capacity, f"request {request.request_id} holds blocks already"
        unused = sum(self.pool.reference_count(block) == 0 for blocks in prefix.block_ids for block in blocks)
        cached = sum(map(len, prefix.block_ids))
        most = sum(held.missing(max(num_tokens, len(request.token_ids)))) - cached
        if most + unused + headroom * len(self._block_sizes) > self.pool.num_free:
            return None
        for blocks in prefix.block_ids:
            self.pool.touch(blocks)
        held.append(prefix.block_ids)
        held.append([self.pool.allocate(count) for count in held.missing(num_tokens)])
        if held.chains:
            held.mark_registered(prefix.num_tokens)
        return [list(table) for table in held.tables]

    def extend(self, request: Request, num_tokens: int) -> list[list[int]] | None:
        """Make room for `num_tokens` in all: the new blocks, `[groups][new blocks]`; None, and nothing changes, where too few are free."""
        held = self._held[request.request_id]
        if num_tokens <= held.capacity:
            return [[] for _ in held.tables] if len(held.tables) > 1 else [[]]
        counts = held.missing(num_tokens)
        if sum(counts) > self.pool.num_free:
            return None
        blocks = [self.pool.allocate(count) for count in counts]
        held.append(blocks)
        return blocks

    def register(self, request: Request) -> None:
        """Let others find the full blocks whose tokens are known and whose KV is written by the steps made so far."""
        held = self._held[request.request_id]
        num_tokens = min(request.num_scheduled_tokens, len(request.token_ids))
        if num_tokens < held.next_full:
            return
        if not self.enable_prefix_caching:
            num_tokens = min(num_tokens, request.num_prompt_tokens)
        for index, (size, suffix, chain) in enumerate(zip(self._block_sizes, self._suffixes, held.chains, strict=True)):
            count = num_tokens // size
            chain.extend(request.token_ids, count)
            for position in range(held.num_registered[index], count):
                parent = chain.parent(position) + suffix
                self.pool.register(held.tables[index][position], chain.hashes[position] + suffix, parent)
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
        self.pool.release(self._held[request.request_id].take_all())

    def forget(self, request: Request) -> None:
        """Take a request's blocks back, if it holds any; it will not come again."""
        held = self._held.pop(request.request_id, None)
        if held is not None:
            self.pool.release(held.take_all())

    def withdraw(self, request: Request) -> None:
        """Let nobody find the blocks of a request whose KV cannot be trusted, nor what hangs on them; O(registered blocks).

        Requests that run on such blocks go on, but register no more.
        """
        chains = self._make_chains(request)
        if not chains:
            return
        bad: set[bytes] = set()
        for size, suffix, chain in zip(self._block_sizes, self._suffixes, chains, strict=True):
            chain.extend(request.token_ids, len(request.token_ids) // size)
            bad.update(block_hash + suffix for block_hash in chain.hashes)
        unsound = set(unsound_blocks(self.pool.registered(), [self._root + suffix for suffix in self._suffixes], bad))
        for block in unsound:
            self.pool.withdraw(block)
        for held in self._held.values():
            if any(not unsound.isdisjoint(table) for table in held.tables):
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
        holders = Counter(block for held in self._held.values() for table in held.tables for block in table)
        assert len(holders) == self.pool.num_in_use, "blocks are held by nobody"
        for block, count in holders.items():
            assert self.pool.reference_count(block) == count, f"block {block} is held {count} times but counted otherwise"

    def _open(self, request: Request) -> RequestBlocks:
        held = self._held.get(request.request_id)
        if held is None:
            held = self._held[request.request_id] = RequestBlocks(self._block_sizes)
            held.chains = self._make_chains(request)
        return held

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

    def _find(self, hashes: Sequence[bytes], suffix: bytes) -> list[int]:
        blocks = []
        for block_hash in hashes:
            block = self.pool.lookup(block_hash + suffix)
            if block is None:
                break
            blocks.append(block)
        return blocks


def _most_tokens(block_sizes: Sequence[int], num_blocks: int) -> int:
    """Tokens for which every group finds its blocks in a pool of `num_blocks`."""
    lengths = range(num_blocks * max(block_sizes) + 1)
    return bisect_right(lengths, num_blocks, key=lambda tokens: sum(-(-tokens // size) for size in block_sizes)) - 1
