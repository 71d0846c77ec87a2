"""Messages about what keeps coming: the first is logged, and then one in a while, so that nobody can fill a log."""

import logging
import time

INTERVAL_S = 10.0


class Complaints:
    """Counts what was wrong and says so now and then.

    Args:
        log: where to say it.
        text: of the message, with a place for the latest reason.
    """

    def __init__(self, log: logging.Logger, text: str) -> None:
        self._log = log
        self._text = text
        self._untold = 0
        self._next = 0.0

    def add(self, reason: object) -> None:
        """Something was wrong again."""
        self._untold += 1
        now = time.monotonic()
        if now < self._next:
            return
        more = "" if self._untold == 1 else f" ({self._untold - 1} more since the last of these messages)"
        self._log.warning("%s%s", self._text % (str(reason)[:200],), more)
        self._untold, self._next = 0, now + INTERVAL_S
