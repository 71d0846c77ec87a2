"""How many requests may run at once."""

import asyncio
from types import TracebackType


class ConcurrencyLimit:
    """Slots that requests wait for, in order.

    Args:
        most: slots; None: no limit.
        ramp_up_s: one slot at first, the others follow evenly within so many seconds. Must be made in the running event loop.
    """

    def __init__(self, most: int | None, *, ramp_up_s: float = 0.0) -> None:
        self._slots = None if most is None else asyncio.Semaphore(1 if ramp_up_s else most)
        self._timers = []
        if self._slots is not None and most is not None and ramp_up_s:
            loop = asyncio.get_running_loop()
            self._timers = [loop.call_later(ramp_up_s * number / most, self._slots.release) for number in range(1, most)]

    def __enter__(self) -> "ConcurrencyLimit":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for timer in self._timers:
            timer.cancel()

    async def acquire(self) -> None:
        """Wait for a slot."""
        if self._slots is not None:
            await self._slots.acquire()

    def release(self) -> None:
        """Give a slot back."""
        if self._slots is not None:
            self._slots.release()
