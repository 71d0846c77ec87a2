"""A server in a process of its own, as users start it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

PROGRAM = Path(sys.executable).parent / "octavo"
START_S = 90.0
"""Longest start of a server, on a machine that has other things to do."""


def until(condition: Callable[[], Any], *, within_s: float = 20.0, what: str = "it") -> Any:
    """The first true value of a condition. Fails where none comes in that time."""
    ends_at = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < ends_at, f"{what} has not come within {within_s:g} s"
        time.sleep(0.02)
    return value


def events(lines: Iterator[str]) -> Iterator[str]:
    """Data of server-sent events."""
    return (line.removeprefix("data: ") for line in lines if line.startswith("data: "))


@dataclass
class RunningServer:
    """One server; ended, with everything that it started, behind its test.

    Attributes:
        process: its first process.
        log: file with all that its processes wrote.
    """

    process: "subprocess.Popen[bytes]"
    log: Path
    uds: Path | None = None
    seen: set[int] = field(default_factory=set)

    @property
    def text(self) -> str:
        return self.log.read_text()

    @property
    def address(self) -> str:
        """Where it listens, once it does."""

        def find() -> str | None:
            self.assert_runs()
            match = re.search(r"listening on ([^\s\"]+)", self.text)
            return match and match[1]

        found: str = until(find, what="a listening socket")
        return found

    def client(self, **options: Any) -> httpx.Client:
        if self.uds is not None:
            return httpx.Client(transport=httpx.HTTPTransport(uds=str(self.uds)), base_url="http://server", timeout=30, **options)
        return httpx.Client(base_url=self.address, timeout=30, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        with self.client() as client:
            return client.get(path, **options)

    def complete(self, **fields: Any) -> httpx.Response:
        with self.client() as client:
            return client.post("/v1/completions", json={"prompt": "hello", "max_tokens": 4, "temperature": 0, "ignore_eos": True, **fields})

    @contextmanager
    def stream(self, **fields: Any) -> Iterator[Iterator[str]]:
        """A stream that has begun: the data of its events behind the first."""
        body = {"prompt": "hello", "temperature": 0, "ignore_eos": True, "stream": True, **fields}
        with self.client() as client, client.stream("POST", "/v1/completions", json=body) as response:
            assert response.status_code == 200, response.read()
            data = events(response.iter_lines())
            next(data)
            yield data

    def status(self, path: str) -> int | None:
        """Status of a GET; None where nobody answers."""
        try:
            return self.get(path).status_code
        except httpx.TransportError:
            return None

    def wait_ready(self) -> None:
        def ready() -> bool:
            self.assert_runs()
            # Of several processes each answers for itself.
            return all(self.status("/ready") == 200 for _ in range(10))

        assert self.address
        until(ready, within_s=START_S, what="readiness")
        self.seen |= set(self.descendants())

    def assert_runs(self) -> None:
        assert self.process.poll() is None, self.text

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self, within_s: float = 30.0) -> int:
        """The exit status. No process that was seen may be left."""
        code = self.process.wait(within_s)
        for pid in self.seen:
            until(lambda pid=pid: not is_alive(pid), within_s=2.0, what=f"the end of process {pid}")
        return code

    def descendants(self, module: str = "") -> list[int]:
        """Ids of the processes below the first, those that run a module if it is named."""
        found, parents = [], [self.process.pid]
        while parents:
            children = [int(child) for parent in parents for child in _children(parent)]
            found += children
            parents = children
        return [pid for pid in found if module in _command(pid)]

    @property
    def engine(self) -> int:
        (pid,) = self.descendants("octavo.engine.process")
        return pid


@dataclass(frozen=True)
class Launcher:
    """Starts servers of one model with the same flags; ends them with `close`."""

    model: Path
    folder: Path
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    started: list[RunningServer] = field(default_factory=list)

    def __call__(self, *more: str, model: str | None = None, uds: Path | None = None, **environment: str) -> RunningServer:
        log = self.folder / f"server-{len(self.started)}.log"
        place = ["--uds", str(uds)] if uds else ["--host", "127.0.0.1", "--port", "0"]
        if "--port" in more:
            place = ["--host", "127.0.0.1"]
        command = [str(PROGRAM), "serve", model or str(self.model), *place, *self.flags, *more]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", **self.environment, **environment},
                start_new_session=True,
            )
        server = RunningServer(process, log, uds)
        self.started.append(server)
        return server

    def ready(self, *more: str, **options: Any) -> RunningServer:
        server = self(*more, **options)
        server.wait_ready()
        return server

    def close(self) -> None:
        for server in self.started:
            leftovers = [server.process.pid, *server.descendants(), *server.seen]
            for pid in leftovers:
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)
            server.process.wait(10)


def last_error(server: RunningServer) -> str:
    """The one line of an error with which a server ended."""
    (line,) = [line for line in server.text.splitlines() if line.startswith("octavo: error: ")]
    assert "Traceback" not in server.text
    return line


def is_alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def error_of(data: list[str]) -> dict[str, Any]:
    """The error with which a stream ended, in front of its end."""
    assert data[-1] == "[DONE]"
    error: dict[str, Any] = json.loads(data[-2])["error"]
    return error


def _children(pid: int) -> list[str]:
    try:
        return [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
