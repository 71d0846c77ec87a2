"""A child process that never outlives its parent: both ends.

The parent holds a `ChildProcess`. The child's main function calls `attach_to_parent` before anything else. Between them is a
socket pair, the lifeline: the child sends a beat on it all the time, and either end sees at once that the other is gone.
"""

import contextlib
import ctypes
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from octavo.errors import OctavoError
from octavo.log import LEVELS, configure_logging, current_log_format

BEAT_S = 0.5
"""Seconds between two beats of a child."""

_PR_SET_PDEATHSIG = 1
_READ_BYTES = 4096


class ChildStartError(OctavoError, RuntimeError):
    """The operating system refused to start a child."""


class ChildProcess:
    """A Python module that runs in a process of its own, without a terminal; what it prints goes to standard error.

    Every method may be called from any thread. Whoever starts a child ends it with `terminate` or `kill`, also one that ended by itself.

    Args:
        module: run as `python -m`; its main function calls `attach_to_parent`.
        arguments: for the module.
        inherit: file descriptors that the child gets, under the same numbers.
        log_level: of the child, one of `octavo.log.LEVELS`; None: as this process logs.

    Raises:
        ChildStartError: there is no room for another process.
    """

    def __init__(self, module: str, arguments: Sequence[str] = (), *, inherit: Sequence[int] = (), log_level: str | None = None) -> None:
        self._ours, theirs = socket.socketpair()
        _introduce(self._ours, log_level or current_log_level())
        self._ours.setblocking(False)
        command = [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments]
        self._hung_up = False
        self._exit_code: int | None = None
        self._exited = threading.Event()
        spawned: Future[subprocess.Popen[bytes]] = Future()
        # The kernel ties the child to the thread that made it, so that thread lives exactly as long as the child.
        arguments_of_thread = (command, (theirs.fileno(), *inherit), spawned)
        threading.Thread(target=self._live, args=arguments_of_thread, name=f"octavo-child {module}", daemon=True).start()
        try:
            self._process = spawned.result()
        except OSError as error:
            self._ours.close()
            raise ChildStartError(f"no process for {module}: {error}") from error
        finally:
            theirs.close()
        self.pid: int = self._process.pid

    @property
    def lifeline(self) -> socket.socket:
        """Readable when a beat came or the child is gone; never blocks. Read it with `take_beats` only."""
        return self._ours

    def take_beats(self) -> bool:
        """Take the beats that came; False where none did. A child that is gone beats no more."""
        came = False
        try:
            while self._ours.recv(_READ_BYTES):
                came = True
            self._hung_up = True
        except BlockingIOError:
            pass
        except ConnectionError:
            self._hung_up = True
        return came

    @property
    def is_gone(self) -> bool:
        """Whether the child ended or hung up."""
        return self._hung_up or self._exited.is_set()

    def poll(self) -> int | None:
        """The exit status: None while the child lives, negative for a signal."""
        return self._exit_code

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the child to end and return its exit status; None where it lives on."""
        self._exited.wait(timeout_s)
        return self._exit_code

    def send_signal(self, number: int) -> None:
        """Signal the child; one that has ended is fine."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End the child at once and wait until it is gone; calling it twice is fine."""
        self.send_signal(signal.SIGKILL)
        self._exited.wait()
        self._ours.close()

    def terminate(self, grace_s: float) -> int:
        """Ask the child to end, kill it where it has not after `grace_s` seconds, and return its exit status."""
        self.send_signal(signal.SIGTERM)
        self.wait(grace_s)
        self.kill()
        assert self._exit_code is not None
        return self._exit_code

    def describe_exit(self) -> str:
        """How the child ended, as the end of a sentence: "was killed by SIGKILL"."""
        if self._exit_code is None:
            return "is running"
        if self._exit_code >= 0:
            return f"ended with exit status {self._exit_code}"
        try:
            return f"was killed by {signal.Signals(-self._exit_code).name}"
        except ValueError:
            return f"was killed by signal {-self._exit_code}"

    def _live(self, command: list[str], inherit: tuple[int, ...], spawned: "Future[subprocess.Popen[bytes]]") -> None:
        try:
            # A session of its own: Ctrl-C reaches the parent alone, which then decides what becomes of its children.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=inherit, start_new_session=True
            )
        except OSError as error:
            spawned.set_exception(error)
            return
        spawned.set_result(process)
        self._exit_code = process.wait()
        # Whoever waits for beats wakes up, also where a child of the child still holds the other end.
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)
        self._exited.set()


def attach_to_parent(arguments: Sequence[str]) -> list[str]:
    """In the child, first of all: end when the parent ends, beat until then, leave Ctrl-C and a terminal that hangs up to the parent, log
    as it does, and import from where it does.

    Args:
        arguments: `sys.argv[1:]`.

    Returns:
        The module's own arguments.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    lifeline = socket.socket(fileno=int(arguments[0]))
    os.set_inheritable(lifeline.fileno(), False)
    parent = _meet(lifeline)
    if sys.platform == "linux":
        # Also where a library holds the interpreter's lock, so that no thread of ours could run.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent["process"]:
        os._exit(1)
    configure_logging(parent["log_level"], log_format=parent["log_format"])
    sys.path[:] = parent["path"]
    threading.Thread(target=_beat, args=(lifeline,), name="octavo-beat", daemon=True).start()
    return list(arguments[1:])


def current_log_level() -> str:
    """The level from which on this process logs messages of Octavo, as `configure_logging` takes it."""
    level = logging.getLogger("octavo").getEffectiveLevel()
    names = logging.getLevelNamesMapping()
    return next((name for name in LEVELS if level <= names[name.upper()]), LEVELS[-1])


def _introduce(lifeline: socket.socket, log_level: str) -> None:
    """Leave on the lifeline what a child has to know of its parent; it is there before the child is."""
    about = json.dumps(
        {
            "process": os.getpid(),
            "log_level": log_level,
            "log_format": current_log_format(),
            "path": [entry for entry in sys.path if isinstance(entry, str)],
        }
    ).encode()
    lifeline.sendall(len(about).to_bytes(4, "little") + about)


def _meet(lifeline: socket.socket) -> dict[str, Any]:
    size = int.from_bytes(lifeline.recv(4, socket.MSG_WAITALL), "little")
    about: dict[str, Any] = json.loads(lifeline.recv(size, socket.MSG_WAITALL))
    return about


def _beat(lifeline: socket.socket) -> None:
    """Send a beat now and then until the parent is gone, and end the process then: nobody is left to tell."""
    lifeline.setblocking(False)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    with contextlib.suppress(ConnectionError):
        while not poll.poll(BEAT_S * 1000):
            # Nobody takes the beats while the parent idles: beats that find no room are left out.
            with contextlib.suppress(BlockingIOError):
                lifeline.send(b".")
    os._exit(1)
