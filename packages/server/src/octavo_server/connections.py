"""How many connections an API process has, which of them nobody would miss, and how to close one behind an answer."""

import asyncio

from starlette.types import Scope

CLOSE = "octavo.close"
"""ASGI extension of the scope, with a function `close` that has the connection closed behind the answer."""


class Room:
    """Room for so many connections. One that is idle gives way to a new one.

    Args:
        most: connections at a time.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._idle: dict[asyncio.Transport, None] = {}

    def note_idle(self, connection: asyncio.Transport) -> None:
        """Nothing is asked for on a connection, until `note_busy`."""
        self._idle[connection] = None

    def note_busy(self, connection: asyncio.Transport) -> None:
        """Something is, or the connection is gone; calling it twice is fine."""
        self._idle.pop(connection, None)

    def make(self) -> bool:
        """Close the connection that has been idle for longest; False where none is."""
        for connection in self._idle:
            self.note_busy(connection)
            connection.close()
            return True
        return False


def close_behind_answer(scope: Scope) -> None:
    """Have the connection of a request closed behind its answer, where there is a connection."""
    extension = scope.get("extensions", {}).get(CLOSE)
    if extension is not None:
        extension["close"]()
