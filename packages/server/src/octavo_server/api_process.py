"""One process that speaks HTTP: from the first connection to the last, across whatever happens to the engine."""

import asyncio
import gc
import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path

from octavo import AsyncLLM
from octavo.env import read_environment
from octavo_server.app import create_app
from octavo_server.engines import Engines, raise_if_it_ended
from octavo_server.http_server import CLOSING_S, HttpServer
from octavo_server.launch import Launch
from octavo_server.metrics.requests import RequestMetrics
from octavo_server.state import ServerState
from octavo_server.stop import StopSignal

WATCH_S = 0.1
"""Seconds between two looks at the engine."""

LAST_WORDS_S = 1.0
"""Seconds that a server without an engine goes on, so that answers go out and probes see what happened."""

_GC_THRESHOLD = 50_000

_log = logging.getLogger(__name__)


class ApiProcess:
    """Serves the application on a socket.

    Args:
        launch: what to serve.
        listener: a listening socket.
        engine: who keeps the engine, which has been started.
        folder: where the engine's socket is.
        client: number of this process among the clients of the engine.
        stop: asks it to end.
    """

    def __init__(
        self,
        launch: Launch,
        listener: socket.socket,
        engine: Engines,
        *,
        folder: Path,
        client: int,
        stop: StopSignal,
    ) -> None:
        self._launch = launch
        self._listener = listener
        self._engine = engine
        self._folder = folder
        self._client = client
        self._stop = stop
        config = launch.config
        metrics = RequestMetrics(prefix=config.metrics_prefix, tenants=config.api_keys, folder=read_environment().metrics_folder)
        self._state = ServerState(config, metrics, started=int(time.time()))
        self._server = HttpServer(create_app(self._state), launch.config)

    async def run(self) -> None:
        """Serve until it is told to stop and what runs has been answered.

        Raises:
            OctavoError: what the engine failed with, once every request got an answer.
        """
        serving = self._server.start(self._listener)
        engine = asyncio.create_task(self._use_engine(), name="engine")
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            await asyncio.wait({serving, engine, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await self._drain()
        finally:
            for task in (engine, stopping):
                task.cancel()
            results = await asyncio.gather(engine, stopping, return_exceptions=True)
            await self._close_engine()
            self._server.stop()
            await serving
        if isinstance(results[0], Exception):
            raise results[0]

    async def _use_engine(self) -> None:
        """Serve with the engine as long as it lives, and with those that come after it. Raises what the last one failed with."""
        llm = await self._connect()
        self._state.serve_with(llm)
        self._engine.note_ready()
        _settle_memory()
        _log.info("ready: %s", ", ".join(self._state.model_names()))
        while True:
            await _until(lambda: not llm.is_alive)
            process, reason = llm.engine_process_id, str(llm.death)
            if await self._is_back(llm):
                continue
            await self._engine.replace(process, reason)
            await self._wait_for_next(llm)
            self._engine.note_ready()
            _log.info("ready again")

    async def _connect(self) -> AsyncLLM:
        launch, start = self._launch, time.perf_counter()
        llm = await AsyncLLM.connect(
            launch.options,
            self._folder,
            client=self._client,
            plugins_allow=launch.plugins_allow,
            plugins_block=launch.plugins_block,
            process=self._engine.process,
        )
        _log.info("start-up: the engine took %.2f s", time.perf_counter() - start)
        return llm

    async def _is_back(self, llm: AsyncLLM) -> bool:
        """Whether the engine answers again after a short time, in which the answers go out that say what happened.

        It does where it was not the engine that stood still, but this process, and then it is waited for until it does.
        """
        await asyncio.sleep(LAST_WORDS_S)
        await self._state.in_flight.wait_idle(CLOSING_S)
        await _until(lambda: llm.is_alive or not llm.is_rejoining)
        return llm.is_alive

    async def _wait_for_next(self, llm: AsyncLLM) -> None:
        """Wait until another engine takes requests. Raises what its start failed with, where this process can know."""
        process = self._engine.process

        def is_there() -> bool:
            if process is not None:
                raise_if_it_ended(process)
            return llm.is_alive

        await _until(is_there)

    async def _drain(self) -> None:
        """Take nothing new, and let what runs come to its end, or to an error when the time is over."""
        state, limit = self._state, self._launch.config.shutdown_timeout_s
        state.is_draining = True
        _log.info("draining: %d requests are being answered", state.in_flight.count)
        if await state.in_flight.wait_idle(limit):
            return
        _log.warning("%d requests are cut off after %g s", state.in_flight.count, limit)
        state.is_cut_off = True
        await self._close_engine()
        await state.in_flight.wait_idle(CLOSING_S)

    async def _close_engine(self) -> None:
        """Let go of the engine; requests under way end with an error."""
        if self._state.llm is not None:
            await self._state.llm.close()


async def _until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; looks now and then."""
    while not condition():
        await asyncio.sleep(WATCH_S)


def _settle_memory() -> None:
    """What is there now stays: let the garbage collector look only at what comes later, and less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 20, 20)
