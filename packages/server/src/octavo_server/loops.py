"""Which event loop runs."""

import asyncio
from collections.abc import Callable

from octavo.errors import ConfigurationError

LOOPS = ("auto", "uvloop", "asyncio")


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the loop of a name; "auto" is uvloop where it is installed. Raises `ConfigurationError` where it is not but has to be."""
    assert name in LOOPS, f"unknown loop {name!r}"
    if name == "asyncio":
        return asyncio.new_event_loop
    try:
        import uvloop
    except ImportError as error:
        if name == "uvloop":
            raise ConfigurationError("--loop uvloop needs the package uvloop: install it, or leave --loop at auto") from error
        return asyncio.new_event_loop
    return uvloop.new_event_loop
