"""Ctrl-C without torn steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupt_afterwards() -> Iterator[None]:
    """Let the block finish before a Ctrl-C is heard: `KeyboardInterrupt` is raised behind it. The second Ctrl-C is heard at once.

    A step that is cut in its middle leaves the engine unusable; between steps it is whole. Does nothing outside the main thread or
    where the program handles SIGINT itself.
    """
    is_ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_ours:
        yield
        return
    heard = False

    def remember(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        if heard:
            raise KeyboardInterrupt
        heard = True

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if heard:
        raise KeyboardInterrupt
