"""Brings calls into a thread that waits for descriptors."""

import os
from collections import deque
from collections.abc import Callable


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
        try:
            os.write(self._writable, b".")
        except BlockingIOError:
            # The pipe is full of signs that there is something to do.
            return

    def deliver(self) -> None:
        """Make the calls that were posted."""
        try:
            os.read(self._readable, 1 << 16)
        except BlockingIOError:
            return
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """Give the descriptors back; nobody may post any more."""
        os.close(self._readable)
        os.close(self._writable)
