"""An engine in a process of its own, as the process that starts it sees it."""

import sys
import time
from pathlib import Path
from typing import Self

import msgspec

from octavo.config.options import EngineOptions
from octavo.engine.child import ChildProcess
from octavo.engine.folder import socket_path, write_private
from octavo.engine.messages import ModelInfo
from octavo.engine.orders import Outcome, Started, StartEngine, order_path, outcome_path
from octavo.errors import EngineDeadError

_LOOK_EVERY_S = 0.05


class EngineProcess:
    """Clients reach it by `RemoteEngine` and the folder. It never outlives this process.

    Whoever starts it ends it with `terminate` or `kill`, also where it ended by itself. Every method may be called from any thread.
    """

    def __init__(self, child: ChildProcess, outcome: Path) -> None:
        self._child = child
        self._outcome = outcome

    @classmethod
    def start(
        cls,
        options: EngineOptions,
        *,
        folder: Path,
        plugins_allow: tuple[str, ...] | None = None,
        plugins_block: tuple[str, ...] = (),
        log_level: str | None = None,
        engine: int = 0,
    ) -> Self:
        """Start the process and return; the engine is loaded when `wait_ready` returns.

        Args:
            options: flags as typed.
            folder: private, with a short name, for socket and files; one engine of each number at a time.
            plugins_allow, plugins_block: see `load_plugins`.
            log_level: one of `octavo.log.LEVELS`; None: as this process logs.
            engine: its number.

        Raises:
            ConfigurationError: the name of the folder is too long for a socket.
            OctavoError: there is no room for another process.
        """
        socket_path(folder, engine)
        outcome = outcome_path(folder, engine)
        outcome.unlink(missing_ok=True)
        order = StartEngine(engine=engine, options=options, plugins_allow=plugins_allow, plugins_block=plugins_block)
        write_private(order_path(folder, engine), msgspec.msgpack.encode(order))
        return cls(ChildProcess("octavo.engine.process", [str(folder), str(engine)], log_level=log_level), outcome)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._child.pid

    def wait_ready(self, timeout_s: float | None = None) -> ModelInfo:
        """Wait until the engine takes requests, and return its limits.

        Raises:
            ConfigurationError, CheckpointError, PluginError: as `build_engine` raised it in the process.
            EngineDeadError: the start failed in another way, or took too long.
        """
        ends_at = None if timeout_s is None else time.monotonic() + timeout_s
        while (info := self.ready_info()) is None:
            if ends_at is not None and time.monotonic() >= ends_at:
                raise EngineDeadError(f"the engine has not been ready for {timeout_s:g} s")
            self._child.wait(_LOOK_EVERY_S)
        return info

    def ready_info(self) -> ModelInfo | None:
        """The limits of the engine; None while it loads. Raises what `wait_ready` raises."""
        # The process may leave word and end between two looks, so the end is looked at first.
        is_gone = self.poll() is not None
        if not self._outcome.exists():
            if is_gone:
                raise EngineDeadError(f"the engine process {self._child.describe_exit()} before it was ready")
            return None
        outcome = msgspec.msgpack.decode(self._outcome.read_bytes(), type=Outcome)
        if isinstance(outcome, Started):
            return outcome.info
        raise outcome.error("the start of the engine")

    def poll(self) -> int | None:
        """The exit status: None while the process lives, negative for a signal."""
        return self._child.poll()

    def describe_exit(self) -> str:
        """How the process ended, as the end of a sentence: "was killed by SIGKILL"."""
        return self._child.describe_exit()

    def terminate(self, grace_s: float = 10.0) -> int:
        """Ask the process to end between two steps, kill it where it has not after `grace_s` seconds; its exit status."""
        return self._child.terminate(grace_s)

    def kill(self) -> None:
        """End the process at once and wait until it is gone; calling it twice is fine."""
        self._child.kill()


if __name__ == "__main__":
    from octavo.engine.hosting import main

    sys.exit(main())
