import select
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.engine.channel import Channel, ChannelClosed


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = (Channel(end) for end in socket.socketpair())
    yield one, other
    one.close()
    other.close()


def never() -> None:
    raise AssertionError("nobody has to wait here")


@given(messages=st.lists(st.binary(max_size=300), max_size=20))
def test_messages_come_whole_and_in_order(messages: list[bytes]) -> None:
    one, other = (Channel(end) for end in socket.socketpair())
    for message in messages:
        one.send(message, never)
    assert [other.receive(never) for _ in messages] == messages
    assert other.take() is None
    one.close()
    other.close()


def test_a_message_larger_than_any_buffer_passes(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    large = bytes(range(256)) * 40_000
    came: list[bytes] = []

    def take() -> None:
        if (message := other.take()) is not None:
            came.append(message)

    one.send(large, take)
    while not came:
        take()
    assert came == [large]


def test_a_message_cut_anywhere_is_put_together() -> None:
    raw, end = socket.socketpair()
    channel = Channel(end)
    data = (3).to_bytes(4, "little") + b"abc" + (0).to_bytes(4, "little")
    for byte in data[:6]:
        raw.send(bytes([byte]))
        assert channel.take() is None
    raw.send(data[6:])
    assert [channel.take(), channel.take(), channel.take()] == [b"abc", b"", None]
    raw.close()
    channel.close()


def test_what_was_said_before_the_other_end_hung_up_is_heard(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    one.send(b"last words", never)
    one.close()
    select.select([other], [], [])
    assert other.take() == b"last words"
    with pytest.raises(ChannelClosed):
        other.take()
    with pytest.raises(ChannelClosed):
        other.send(b"too late", never)
