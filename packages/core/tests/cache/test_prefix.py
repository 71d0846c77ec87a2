import hashlib
import hmac
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.cache.block_pool import BlockPool
from octavo.cache.prefix import Extra, PrefixChain, encode_tokens, root_hash, unsound_blocks

ROOT = root_hash(b"secret", b"model")


def chain_of(tokens: list[int], *, block_size: int = 4, root: bytes = ROOT, extras: tuple[Extra, ...] = ()) -> list[bytes]:
    chain = PrefixChain(root, block_size, extras)
    chain.extend(tokens, len(tokens) // block_size)
    return chain.hashes


def test_the_hash_is_that_of_the_documented_bytes() -> None:
    assert hmac.new(b"secret", b"model", hashlib.sha256).digest() == ROOT
    first, second = chain_of([1, 2, 258, 2**31 - 1], block_size=2, extras=(("salt", b"xyz"),))
    extra = struct.pack("<I", 4) + b"salt" + struct.pack("<I", 3) + b"xyz"
    assert first == hashlib.sha256(b"\x01" + ROOT + struct.pack("<Iii", 2, 1, 2) + extra).digest()
    assert second == hashlib.sha256(b"\x01" + first + struct.pack("<Iii", 2, 258, 2**31 - 1) + extra).digest()


def test_compensating_changes_of_neighbouring_tokens_change_the_hash() -> None:
    tokens = [100, 200, 300, 400]
    for position in range(3):
        changed = list(tokens)
        changed[position] += 31
        changed[position + 1] -= 1
        assert chain_of(changed) != chain_of(tokens)


def test_the_same_block_after_another_first_block_has_another_hash() -> None:
    assert chain_of([1, 2, 3, 4, 5, 6, 7, 8])[1] != chain_of([1, 2, 3, 9, 5, 6, 7, 8])[1]


def test_the_root_depends_on_secret_and_model() -> None:
    hashes = {chain_of([1, 2, 3, 4], root=root_hash(secret, model))[0] for secret in (b"a", b"b") for model in (b"m", b"n")}
    assert len(hashes) == 4


def test_extras_of_another_kind_or_cut_elsewhere_are_not_the_same() -> None:
    extras: list[tuple[Extra, ...]] = [
        (),
        (("salt", b"a"),),
        (("adapter", b"a"),),
        (("salt", b"ab"),),
        (("salta", b"b"),),
        (("salt", b""), ("adapter", b"a")),
        (("salt", b"a"), ("salt", b"a")),
    ]
    assert len({chain_of([1, 2, 3, 4], extras=extra)[0] for extra in extras}) == len(extras)


def test_blocks_of_another_size_have_other_hashes() -> None:
    assert chain_of([1, 2, 3, 4], block_size=4)[0] != chain_of([1, 2, 3, 4], block_size=2)[0]


@given(tokens=st.lists(st.integers(0, 2**31 - 1), max_size=40), stops=st.lists(st.integers(0, 10), max_size=4))
def test_hashing_bit_by_bit_equals_hashing_at_once(tokens: list[int], stops: list[int]) -> None:
    chain = PrefixChain(ROOT, 4)
    for stop in (*sorted(stops), 10):
        chain.extend(tokens, min(stop, len(tokens) // 4))
    assert chain.hashes == chain_of(tokens)


@pytest.mark.parametrize("token_id", [2**31, -(2**31) - 1, 1.5, "a", None])
def test_what_is_no_int32_has_no_bytes(token_id: object) -> None:
    with pytest.raises((OverflowError, TypeError)):
        encode_tokens([token_id])  # type: ignore[list-item]


def test_unsound_is_what_is_bad_hangs_on_it_or_cannot_be_traced_to_the_root() -> None:
    registered = [
        (1, b"a", ROOT),
        (2, b"b", b"a"),
        (3, b"c", b"b"),
        (4, b"d", b"a"),
        (5, b"orphan", b"gone"),
        (6, b"other", ROOT),
    ]
    assert sorted(unsound_blocks(registered, [ROOT], {b"b"})) == [2, 3, 5]
    assert sorted(unsound_blocks(registered, [ROOT], set())) == [5]
    assert sorted(unsound_blocks(registered, [ROOT], {b"a", b"b"})) == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_prompt_of_100_000_tokens_is_hashed_and_looked_up_in_50_ms() -> None:
    tokens, pool = list(range(100_000)), BlockPool(1)

    def measure() -> float:
        start = time.perf_counter()
        assert all(pool.lookup(block_hash) is None for block_hash in chain_of(tokens, block_size=16))
        return time.perf_counter() - start

    assert min(measure() for _ in range(5)) < 0.05
