"""What waits for the outputs of one prompt in an event loop."""

import asyncio

from octavo.errors import EngineDeadError
from octavo.output.group import RequestGroup


class OutputStream:
    """Wakes the one task that reads a group; what comes while it does not look is there when it looks next.

    Args:
        group: that grows.
        every_change: wake for every gain, and not for the end alone.

    Attributes:
        complete: nothing more will come.
    """

    def __init__(self, group: RequestGroup, *, every_change: bool) -> None:
        self.group = group
        self.complete = False
        self._every_change = every_change
        self._changed = asyncio.Event()
        self._death: EngineDeadError | None = None

    def note_change(self) -> None:
        """The group gained something, and will gain more."""
        if self._every_change:
            self._changed.set()

    def note_end(self) -> None:
        """The group has all that it will get."""
        self.complete = True
        self._changed.set()

    def note_death(self, error: EngineDeadError) -> None:
        """The engine cannot go on."""
        self._death = error
        self._changed.set()

    async def change(self) -> None:
        """Wait until there is something new. Raises `EngineDeadError` where nothing more can come."""
        await self._changed.wait()
        self._changed.clear()
        if self._death is not None and not self.complete:
            raise EngineDeadError(str(self._death)) from self._death
