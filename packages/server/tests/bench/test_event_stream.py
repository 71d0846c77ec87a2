from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo_server.bench.event_stream import EventSplitter

PLAIN = b'data: {"a": 1}\n\ndata: {"b": 2}\n\ndata: [DONE]\n\n'
ODD = (
    b": a comment\n\nevent: x\nid: 7\ndata:no space\n\n\n\ndata: first\ndata: second\r\n\r\nretry: 10\r\rdata: \xc3\xa9\r\r"
    b"data:  two spaces\r\n\ndata\n\n"
)
ODD_EVENTS = [b"no space", b"first\nsecond", b"\xc3\xa9", b" two spaces"]


def feed(*pieces: bytes) -> list[bytes]:
    splitter = EventSplitter()
    return [data for piece in pieces for data in splitter.feed(piece)]


def test_events_that_come_in_one_piece_are_told_apart() -> None:
    assert feed(PLAIN) == [b'{"a": 1}', b'{"b": 2}', b"[DONE]"]


@pytest.mark.parametrize(("text", "expected"), [(PLAIN, [b'{"a": 1}', b'{"b": 2}', b"[DONE]"]), (ODD, ODD_EVENTS)])
def test_a_stream_may_be_cut_at_every_byte(text: bytes, expected: list[bytes]) -> None:
    for cut in range(len(text) + 1):
        assert feed(text[:cut], text[cut:]) == expected
    assert feed(*(text[place : place + 1] for place in range(len(text)))) == expected


@given(cuts=st.lists(st.integers(0, len(ODD)), max_size=12))
def test_a_stream_may_be_cut_anywhere_many_times(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(ODD)]
    assert feed(*(ODD[start:end] for start, end in pairwise(places))) == ODD_EVENTS


def test_an_event_without_its_end_is_none() -> None:
    assert feed(b"data: x\n") == []
