"""Sends requests when they are due and collects what becomes of them."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from octavo_server.bench.client import LoadClient, LoadState, PreparedRequest
from octavo_server.bench.limit import ConcurrencyLimit
from octavo_server.bench.record import RequestRecord


@dataclass(frozen=True, kw_only=True)
class LoadOutcome:
    """What a load brought.

    Attributes:
        records: of requests that ended, in the order in which they did.
        elapsed_s: from the start to the end of the last request.
        cpu_s: processor time of this process meanwhile.
        num_unfinished: requests that were given up or not sent, because the load was stopped.
        peak_running: most requests under way at once.
    """

    records: tuple[RequestRecord, ...]
    elapsed_s: float
    cpu_s: float
    num_unfinished: int
    peak_running: int


class LoadGenerator:
    """One load on one server.

    Args:
        client: sends requests.
        limit: how many may run at once.
        state: kept up to date.
    """

    def __init__(self, client: LoadClient, limit: ConcurrencyLimit, state: LoadState) -> None:
        self._client = client
        self._limit = limit
        self._state = state
        self._records: list[RequestRecord] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._start = 0.0

    async def run(self, requests: Sequence[PreparedRequest], offsets: Sequence[float], *, stop: asyncio.Event | None = None) -> LoadOutcome:
        """Send every request at its offset in seconds, or as soon as there is a slot, and wait for all; once, per generator.

        Args:
            stop: when it is set, requests under way are given up.
        """
        cpu = time.process_time()
        self._start = time.perf_counter()
        sending = asyncio.ensure_future(self._send_all(requests, offsets))
        stopping = asyncio.ensure_future((stop or asyncio.Event()).wait())
        try:
            await asyncio.wait({sending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            elapsed, cpu = time.perf_counter() - self._start, time.process_time() - cpu
            await _end((sending, stopping, *self._tasks))
        return LoadOutcome(
            records=tuple(self._records),
            elapsed_s=elapsed
            if stopping.done() and not stopping.cancelled()
            else max((record.ended for record in self._records), default=elapsed),
            cpu_s=cpu,
            num_unfinished=len(requests) - len(self._records),
            peak_running=self._state.peak_running,
        )

    async def _send_all(self, requests: Sequence[PreparedRequest], offsets: Sequence[float]) -> None:
        for request, offset in zip(requests, offsets, strict=True):
            wait = self._start + offset - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            await self._limit.acquire()
            task = asyncio.create_task(self._send(request, offset))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._tasks:
            await asyncio.gather(*self._tasks)

    async def _send(self, request: PreparedRequest, due: float) -> None:
        state = self._state
        state.num_running += 1
        state.peak_running = max(state.peak_running, state.num_running)
        try:
            record = await self._client.send(request, state, start=self._start, due=due)
        finally:
            state.num_running -= 1
            self._limit.release()
        self._records.append(record)
        state.num_done += 1
        state.num_failed += record.error is not None


async def _end(tasks: "tuple[asyncio.Future[Any], ...]") -> None:
    """Cancel what still runs and wait for it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
