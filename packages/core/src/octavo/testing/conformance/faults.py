"""What an engine dies of, without the engine."""

from collections.abc import Iterator
from contextlib import contextmanager

from octavo.errors import EngineDeadError


@contextmanager
def bare_faults() -> Iterator[None]:
    """A fault that a suite found inside a step comes out as the AssertionError it is."""
    try:
        yield
    except EngineDeadError as error:
        if isinstance(error.__cause__, AssertionError):
            raise error.__cause__ from None
        raise
