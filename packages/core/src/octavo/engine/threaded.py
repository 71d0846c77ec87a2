"""A link to an engine that runs in a thread of this process."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress

from octavo.engine.background import BackgroundEngine
from octavo.engine.client import InProcessClient
from octavo.engine.link import EngineLink, OnDeath, OnOutputs
from octavo.engine.load import EngineLoad, LoadTracker
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import EngineDeadError
from octavo.metrics.stats import EngineStats


class ThreadedEngine(EngineLink):
    """Carries outputs from the engine's thread to the event loop, all that has come until the loop looks in one call.

    Args:
        client: of the engine; nobody else may use it any more.
        on_outputs, on_death: called in the event loop.
    """

    def __init__(self, client: InProcessClient, *, on_outputs: OnOutputs, on_death: OnDeath) -> None:
        self._on_outputs = on_outputs
        self._on_death = on_death
        self._arrived: deque[list[EngineOutput]] = deque()
        self._delivery_is_due = False
        self._death: EngineDeadError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tracker = LoadTracker()
        self._background = BackgroundEngine(client, on_outputs=self._hand_over, on_death=self._hand_over_death)

    @property
    def death(self) -> EngineDeadError | None:
        return self._death

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # The loop before may have ended with a delivery that it never made, and nothing is handed over while one is due.
        self._delivery_is_due = True
        loop.call_soon(self._deliver)

    def add(self, requests: Sequence[EngineRequest]) -> None:
        # A report takes what is known already off the tracker, which nobody may ever ask for the load.
        self._tracker.reported(self._background.reports.of(0))
        self._tracker.sent(requests)
        self._background.add(requests)

    def abort(self, request_ids: Iterable[str]) -> None:
        self._background.abort(request_ids)

    def finish(self, request_id: str, num_output_tokens: int) -> None:
        self._background.finish(request_id, num_output_tokens)

    def load(self) -> EngineLoad:
        self._tracker.reported(self._background.reports.of(0))
        return self._tracker.load()

    def reset_prefix_cache(self) -> Awaitable[bool]:
        return asyncio.wrap_future(self._background.reset_prefix_cache())

    def stats(self) -> Awaitable[EngineStats]:
        return asyncio.wrap_future(self._background.stats())

    def ping(self) -> Awaitable[None]:
        return asyncio.wrap_future(self._background.ping())

    async def close(self) -> None:
        """Wait for the step under way and release the engine."""
        self._death = self._death or EngineDeadError("the engine is closed: start a new one")
        self._on_death(self._death)
        await asyncio.to_thread(self._background.close)

    def _hand_over(self, outputs: list[EngineOutput]) -> None:
        """Runs in the engine's thread."""
        self._arrived.append(outputs)
        if self._delivery_is_due:
            return
        self._delivery_is_due = True
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            # The loop was closed under its requests: nobody is left who could read them.
            self._delivery_is_due = False
            self._background.abort({output.request_id for batch in self._arrived for output in batch})
            self._arrived.clear()

    def _hand_over_death(self, error: EngineDeadError) -> None:
        """Runs in the engine's thread."""
        self._death = self._death or error
        if self._loop is not None:
            # A loop that is closed has nobody left to tell.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._on_death, error)

    def _deliver(self) -> None:
        self._delivery_is_due = False
        try:
            while self._arrived:
                self._on_outputs(self._arrived.popleft())
        finally:
            # Only where that failed is something left, and nothing later may come to carry it along.
            if self._arrived and self._loop is not None:
                self._delivery_is_due = True
                self._loop.call_soon(self._deliver)
