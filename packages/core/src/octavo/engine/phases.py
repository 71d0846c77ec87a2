"""How long the parts of a start-up take."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Log how long a part of the start-up took, unless it failed."""
    start = time.perf_counter()
    yield
    _log.info("start-up: %s took %.2f s", name, time.perf_counter() - start)


def hide_phases() -> None:
    """Log no more of them in this process: who asks a question wants the answer alone."""
    _log.setLevel(logging.WARNING)
