"""Calls from other threads are made in order, and leave the thread time for its other work."""

import select
from collections.abc import Iterator

import pytest

from octavo.engine.mailbox import Mailbox


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    mailbox = Mailbox()
    yield mailbox
    mailbox.close()


def is_readable(mailbox: Mailbox) -> bool:
    return bool(select.select([mailbox.fileno()], [], [], 0)[0])


def test_all_calls_are_made_in_order(mailbox: Mailbox) -> None:
    made: list[int] = []
    for number in range(1000):
        mailbox.post(lambda number=number: made.append(number))  # type: ignore[misc]
    while is_readable(mailbox):
        mailbox.deliver()
    assert made == list(range(1000))


def test_calls_that_never_cease_do_not_hold_the_thread(mailbox: Mailbox) -> None:
    made = []

    def again() -> None:
        made.append(0)
        mailbox.post(again)

    mailbox.post(again)
    for _ in range(3):
        assert is_readable(mailbox)
        mailbox.deliver()
    assert len(made) >= 3


def test_there_is_nothing_to_do_without_calls(mailbox: Mailbox) -> None:
    mailbox.deliver()
    assert not is_readable(mailbox)
