"""Names of prefixes: a hash chain over full blocks of tokens.

The hash of a block is the SHA-256 of these bytes, integers little-endian:

    1 byte     version, 1
    32 bytes   hash of the block before it; for the first block, the root
    4 bytes    number of tokens, unsigned
    4 bytes    each token id, signed
    then for each extra, in order:
    4 bytes    length of its name, unsigned
               its name, UTF-8
    4 bytes    length of its value, unsigned
               its value

The root is HMAC-SHA-256 of the model's fingerprint under a secret, so that nobody outside can predict a hash, and engines that do not
share the secret, or the model, share no hash. An extra is whatever else the KV of a block depends on, or is kept apart by: the cache
salt of a request, the group of one prompt's continuations; its name keeps equal values of different kinds apart.
"""

import hmac
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256

VERSION = b"\x01"
SECRET_BYTES = 32
HASH_BYTES = 32
"""Length of a root and of every hash."""

Extra = tuple[str, bytes]
"""Name and value of something that a block's identity includes beside its tokens."""


def root_hash(secret: bytes, fingerprint: bytes) -> bytes:
    """Parent of every first block, 32 bytes."""
    return hmac.digest(secret, fingerprint, "sha256")


def encode_extras(extras: Iterable[Extra]) -> bytes:
    """The bytes of the extras at the end of what is hashed."""
    return b"".join(_with_length(name.encode()) + _with_length(value) for name, value in extras)


def encode_tokens(token_ids: Sequence[int]) -> bytes:
    """Token ids as little-endian int32. Raises `OverflowError` or `TypeError` for what is none."""
    tokens = array("i", token_ids)
    if sys.byteorder == "big":
        tokens.byteswap()
    return tokens.tobytes()


class PrefixChain:
    """Hashes of one sequence's full blocks, computed once and only as far as asked for.

    Attributes:
        block_size: tokens a block.
        hashes: one for each block so far.
    """

    def __init__(self, root: bytes, block_size: int, extras: Iterable[Extra] = ()) -> None:
        self.block_size = block_size
        self.hashes: list[bytes] = []
        self._root = root
        self._count = block_size.to_bytes(4, "little")
        self._extras = encode_extras(extras)

    def extend(self, token_ids: Sequence[int], num_blocks: int) -> None:
        """Hash on until there are `num_blocks`; `token_ids` is the sequence from its start, at least that long."""
        first = len(self.hashes)
        if num_blocks <= first:
            return
        tokens = encode_tokens(token_ids[first * self.block_size : num_blocks * self.block_size])
        block_bytes = 4 * self.block_size
        assert len(tokens) == (num_blocks - first) * block_bytes, "only full blocks have a hash"
        parent, count, extras = self.parent(first), self._count, self._extras
        for start in range(0, len(tokens), block_bytes):
            parent = sha256(VERSION + parent + count + tokens[start : start + block_bytes] + extras).digest()
            self.hashes.append(parent)

    def parent(self, index: int) -> bytes:
        """Hash of the block before block `index`."""
        return self.hashes[index - 1] if index else self._root


def unsound_blocks(registered: Iterable[tuple[int, bytes, bytes]], roots: Iterable[bytes], bad: AbstractSet[bytes]) -> list[int]:
    """Blocks that cannot be reached from a root without passing a bad hash, of those given as (block, hash, parent hash).

    They hang on a bad block, are one, or hang on a block that is gone: of these nobody can tell whether a bad one came before.
    """
    children: defaultdict[bytes, list[tuple[int, bytes]]] = defaultdict(list)
    for block, block_hash, parent in registered:
        children[parent].append((block, block_hash))
    unsound, parents = [], list(roots)
    while parents:
        for block, block_hash in children.pop(parents.pop(), ()):
            if block_hash in bad:
                unsound.append(block)
            else:
                parents.append(block_hash)
    unsound += [block for orphans in children.values() for block, _ in orphans]
    return unsound


def _with_length(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value
