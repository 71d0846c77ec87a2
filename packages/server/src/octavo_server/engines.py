"""The engine of a server, as an API process sees it: its own child, or that of its supervisor."""

import asyncio
import logging
from abc import ABC, abstractmethod
from pathlib import Path

from octavo.engine.process import EngineProcess
from octavo.errors import EngineDeadError
from octavo_server.launch import Launch

EXIT_GRACE_S = 3.0
"""Seconds that an engine gets to end by itself."""

_log = logging.getLogger(__name__)


class Engines(ABC):
    """Tells who keeps the engine what an API process sees of it."""

    @property
    @abstractmethod
    def process(self) -> EngineProcess | None:
        """The present engine, where it is a child of this process."""

    @abstractmethod
    def note_ready(self) -> None:
        """The engine serves this process."""

    @abstractmethod
    async def replace(self, process: int | None, reason: str) -> None:
        """An engine is lost to this process: start another at the same address, unless that has been done.

        Args:
            process: id of the lost engine's; another engine is left alone.
            reason: what is known of why; may be empty where its process has ended.

        Raises:
            EngineDeadError: there shall be no other.
        """


class OwnEngine(Engines):
    """An engine that is a child of this process, and those that come after it.

    Args:
        launch: what to start.
        folder: private, for sockets and files.
    """

    def __init__(self, launch: Launch, folder: Path) -> None:
        self._launch = launch
        self._folder = folder
        self._process: EngineProcess | None = None

    @property
    def process(self) -> EngineProcess | None:
        return self._process

    def start(self) -> None:
        """Start the engine; it loads for a while."""
        assert self._process is None, "one engine at a time"
        launch = self._launch
        self._process = EngineProcess.start(
            launch.options,
            folder=self._folder,
            plugins_allow=launch.plugins_allow,
            plugins_block=launch.plugins_block,
            log_level=launch.config.log_level,
        )
        _log.info("the engine is process %d", self._process.pid)

    def exit_reason(self) -> str | None:
        """How the engine ended; None while it lives."""
        if self._process is None or self._process.poll() is None:
            return None
        return f"the engine process {self._process.describe_exit()}"

    def note_ready(self) -> None:
        _log.debug("the engine serves process %d itself", self._process.pid if self._process else 0)

    async def replace(self, process: int | None, reason: str) -> None:
        if self._process is not None and self._process.pid != process:
            return
        if (end := self.exit_reason()) is not None:
            reason = f"{reason} ({end})" if reason else end
        self.kill()
        if not self._launch.config.restart_engine:
            raise EngineDeadError(reason)
        _log.warning("another engine is started: %s", reason)
        self.start()

    async def close(self) -> None:
        """End the engine, by force where it does not end by itself."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(process.terminate, EXIT_GRACE_S)

    def kill(self) -> None:
        """End the engine at once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()


def raise_if_it_ended(process: EngineProcess) -> None:
    """Raise what the start of an engine failed with, or `EngineDeadError` where its process has ended since."""
    process.ready_info()
    if process.poll() is not None:
        raise EngineDeadError(f"the engine process {process.describe_exit()}")
