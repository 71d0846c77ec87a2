"""The doorway to the `tokenizers` library, whose code is Rust: it raises plain `Exception`, and a panic is no `Exception` at all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from octavo.errors import OctavoError, described


@contextmanager
def failing_as(error: Callable[[str], OctavoError], what: str) -> Iterator[None]:
    """Whatever the library raises inside becomes one of the project's own errors.

    Args:
        error: makes it of a message.
        what: failed, as the beginning of the message.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, OctavoError):
        raise
    except BaseException as failure:
        raise error(f"{what}: {described(failure)}") from failure
