"""SIGTERM and SIGINT: the first asks the server to end, the second ends it. A terminal that hangs up asks, and never more."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger(__name__)


class StopSignal:
    """Set by the first signal; the second one ends the process without another word.

    Args:
        abandon: called before that; ends children and removes files, and must not wait.
    """

    def __init__(self, abandon: Callable[[], None]) -> None:
        self._abandon = abandon
        self._event = asyncio.Event()

    def listen(self) -> None:
        """Take the signals of this process, in the running loop. Only in the main thread."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._take, number)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            # Ignored under nohup: then the server outlives its terminal.
            loop.add_signal_handler(signal.SIGHUP, self._ask, signal.SIGHUP)

    async def wait(self) -> None:
        """Wait for the first signal."""
        await self._event.wait()

    def _ask(self, number: signal.Signals) -> None:
        if not self._event.is_set():
            _log.info("%s: shutting down; a second SIGTERM or Ctrl-C ends the server at once", number.name)
            self._event.set()

    def _take(self, number: signal.Signals) -> None:
        if not self._event.is_set():
            self._ask(number)
            return
        _log.warning("%s: ending at once", number.name)
        self._abandon()
        os._exit(128 + number)
