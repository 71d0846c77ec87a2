"""Brings calls into a thread that waits for descriptors."""

import os
from collections import deque
from collections.abc import Callable

_BURST = 256
"""Calls that are made before the thread looks at its other descriptors again."""


class Mailbox:
    """Any thread posts, a signal handler too; one thread polls the descriptor and makes the calls, in order."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)

    def fileno(self) -> int:
        """Readable when there are calls to make."""
        return self._readable

    def post(self, call: Callable[[], None]) -> None:
        """Have a call made in the other thread."""
        self._calls.append(call)
        self._signal()

    def deliver(self) -> None:
        """Make calls that were posted: so many that the thread comes to its other work, however fast they come. Others wait for the next
        turn."""
        try:
            os.read(self._readable, 1 << 16)
        except BlockingIOError:
            return
        for _ in range(min(len(self._calls), _BURST)):
            self._calls.popleft()()
        if self._calls:
            self._signal()

    def _signal(self) -> None:
        try:
            os.write(self._writable, b".")
        except BlockingIOError:
            # The pipe is full of signs that there is something to do.
            return

    def close(self) -> None:
        """Give the descriptors back; nobody may post any more."""
        os.close(self._readable)
        os.close(self._writable)
