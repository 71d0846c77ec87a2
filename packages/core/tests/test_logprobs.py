import msgspec
import pytest

from octavo.logprobs import LogprobRows, join


def rows(*tokens: int) -> LogprobRows:
    ids = [number for token in tokens for number in (token, 1, 2)]
    return LogprobRows.pack(ids, [-number / 8 for number in ids], [token + 1 for token in tokens])


def test_what_is_packed_comes_out_again_also_after_a_message() -> None:
    packed = msgspec.msgpack.decode(msgspec.msgpack.encode(rows(7, 1)), type=LogprobRows)
    assert list(packed.positions()) == [((7, 1, 2), (-0.875, -0.125, -0.25), 8), ((1, 1, 2), (-0.125, -0.125, -0.25), 2)]
    assert packed.token_values() == [-0.875, -0.125]
    assert (len(packed), packed.num_top) == (2, 2)


def test_parts_are_joined_in_order() -> None:
    assert join([rows(3), rows(4, 5), rows(6)]) == rows(3, 4, 5, 6)


def test_no_parts_are_no_tokens() -> None:
    assert (len(join([])), join([]).token_values(), list(join([]).positions())) == (0, [], [])


def test_a_token_alone_has_no_alternatives() -> None:
    packed = LogprobRows.pack([9, 8], [-1.0, -2.0], [4, 1])
    assert packed.num_top == 0
    assert [ids for ids, _, _ in packed.positions()] == [(9,), (8,)]


def test_a_message_holds_bytes_not_an_object_a_token() -> None:
    many = LogprobRows.pack(list(range(21_000)), [0.5] * 21_000, [1] * 1000)
    assert len(msgspec.msgpack.encode(many)) == pytest.approx(21_000 * 8 + 1000 * 4, abs=100)
