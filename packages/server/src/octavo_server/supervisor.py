"""Several API processes on one socket, and the engine that they share."""

import asyncio
import logging
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from octavo.engine.child import ChildProcess
from octavo.engine.wire import Failure
from octavo.errors import OctavoError
from octavo_server.engines import OwnEngine
from octavo_server.errors import ServeError
from octavo_server.launch import Launch
from octavo_server.stop import StopSignal
from octavo_server.supervised_messages import EngineLost, FromChild, Mailbox, Ready, Serve, open_mailbox

WATCH_S = 0.1
MAX_FAILED_STARTS = 3
"""API processes in a row that may end before they are ready."""

_ENDING_S = 8.0
_log = logging.getLogger(__name__)


@dataclass
class _Child:
    """An API process as its supervisor sees it."""

    client: int
    process: ChildProcess
    mailbox: Mailbox[FromChild]
    failure: Failure | None = None
    was_ready: bool = False
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)


class Supervisor:
    """Keeps the engine and the API processes; speaks no HTTP itself.

    An API process that dies is replaced; its requests are lost, those of the others are not.

    Args:
        launch: what to serve.
        listener: the listening socket, which every API process gets.
        engine: theirs; started by `run`.
        folder: where the engine's socket is.
        stop: asks it to end.
        metrics_folder: where the API processes share their metrics.
    """

    def __init__(
        self, launch: Launch, listener: socket.socket, engine: OwnEngine, *, folder: Path, stop: StopSignal, metrics_folder: Path
    ) -> None:
        self._launch = launch
        self._listener = listener
        self._engine = engine
        self._folder = folder
        self._stop = stop
        self._metrics_folder = metrics_folder
        self._children: list[_Child] = []
        self._failed_starts = 0
        self._loss: EngineLost | None = None

    async def run(self) -> None:
        """Serve until told to stop.

        Raises:
            OctavoError: what the engine or an API process failed with.
        """
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            self._engine.start()
            for client in range(self._launch.config.api_server_count):
                await self._spawn(client)
            while not stopping.done():
                await asyncio.wait({stopping}, timeout=WATCH_S)
                await self._look()
            await self._drain()
        except OctavoError:
            # The others fail with the same, each once it has answered its requests.
            await self._wait_children(_ENDING_S)
            raise
        finally:
            stopping.cancel()
            await self._end_children()

    async def _spawn(self, client: int) -> None:
        """Start an API process, or another in the place of one that died."""
        ours, theirs = socket.socketpair()
        arguments = [str(self._listener.fileno()), str(theirs.fileno()), str(self._metrics_folder), self._launch.config.loop]
        with theirs:
            process = ChildProcess(
                "octavo_server.supervised",
                arguments,
                inherit=(self._listener.fileno(), theirs.fileno()),
                log_level=self._launch.config.log_level,
            )
        mailbox: Mailbox[FromChild] = await open_mailbox(ours, FromChild)  # type: ignore[arg-type]
        child = _Child(client=client, process=process, mailbox=mailbox)
        self._children.append(child)
        child.tasks.append(asyncio.create_task(self._hear(child), name=f"api-{child.client}"))
        child.mailbox.say(Serve(launch=self._launch, folder=str(self._folder), client=client))
        _log.info("API process %d is process %d", child.client, process.pid)

    async def _hear(self, child: _Child) -> None:
        async for message in child.mailbox.listen():
            if isinstance(message, Ready):
                child.was_ready = True
                self._failed_starts = 0
            elif isinstance(message, EngineLost):
                self._loss = message
            else:
                child.failure = message

    async def _look(self) -> None:
        """See to whoever ended."""
        for child in [child for child in self._children if child.process.poll() is not None]:
            await self._bury(child)
        await self._look_at_engine()

    async def _look_at_engine(self) -> None:
        """Replace an engine that ended, or that an API process has lost."""
        engine = self._engine.process
        assert engine is not None
        loss, self._loss = self._loss, None
        is_lost = loss is not None and loss.process == engine.pid
        if self._engine.exit_reason() is not None or is_lost:
            # What a start failed with says more than that the process has ended.
            engine.ready_info()
            await self._engine.replace(engine.pid, loss.reason if loss is not None and is_lost else "")

    async def _bury(self, child: _Child) -> None:
        """Take note of an API process that ended, and start another. Raises what it failed with."""
        self._children.remove(child)
        # What it said last may still be on its way.
        await asyncio.gather(*child.tasks)
        child.process.kill()
        _forget_metrics(child.process.pid, self._metrics_folder)
        if child.failure is not None:
            raise child.failure.error(f"API process {child.client}")
        _log.error("API process %d %s; its requests are lost", child.client, child.process.describe_exit())
        self._failed_starts += not child.was_ready
        if self._failed_starts >= MAX_FAILED_STARTS:
            raise ServeError(f"{self._failed_starts} API processes in a row ended before they were ready: the log says why")
        await self._spawn(child.client)

    async def _drain(self) -> None:
        """Let every API process answer what it has."""
        for child in self._children:
            child.process.send_signal(signal.SIGTERM)
        await self._wait_children(self._launch.config.shutdown_timeout_s + _ENDING_S)

    async def _wait_children(self, timeout_s: float) -> None:
        """Wait until all ended, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while any(child.process.poll() is None for child in self._children):
                    await asyncio.sleep(WATCH_S)

    async def _end_children(self) -> None:
        for child in self._children:
            await asyncio.to_thread(child.process.kill)
            await asyncio.gather(*child.tasks)
            await child.mailbox.close()


def _forget_metrics(process: int, folder: Path) -> None:
    """Drop the gauges of a process that is no more; what it counted stays."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(process, str(folder))  # type: ignore[no-untyped-call]
