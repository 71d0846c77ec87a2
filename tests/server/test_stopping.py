"""How a server ends."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.server.running import Launcher, error_of, until


@pytest.mark.parametrize("processes", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_what_runs_is_answered_and_what_comes_is_refused(launch: Launcher, processes: str) -> None:
    server = launch.ready("--shutdown-timeout", "20", "--api-server-count", processes)
    with server.stream(max_tokens=100) as data:
        server.signal(signal.SIGTERM)
        until(lambda: server.status("/ready") == 503)
        refused = server.complete()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert server.status("/health") == 200
        rest = list(data)
    assert rest[-1] == "[DONE]"
    assert '"finish_reason":"length"' in rest[-2]
    assert server.wait() == 0


def test_ctrl_c_ends_it_the_same_way(launch: Launcher) -> None:
    server = launch.ready()
    server.signal(signal.SIGINT)
    assert server.wait() == 0


def test_a_terminal_that_hangs_up_lets_it_end_and_leaves_no_socket(launch: Launcher, tmp_path: Path) -> None:
    path = tmp_path / "octavo.sock"
    server = launch.ready("--api-server-count", "2", uds=path)
    with server.stream(max_tokens=40) as data:
        for process in (server.process.pid, *server.descendants()) * 2:
            os.kill(process, signal.SIGHUP)
        assert list(data)[-1] == "[DONE]"
    assert server.wait() == 0
    assert not path.exists()


def test_without_time_clients_get_an_error_and_the_end(launch: Launcher) -> None:
    server = launch.ready("--shutdown-timeout", "0")
    with server.stream(max_tokens=9000) as data:
        server.signal(signal.SIGTERM)
        start = time.monotonic()
        error = error_of(list(data))
        assert time.monotonic() - start < 5
    assert (error["type"], error["code"]) == ("service_unavailable", "shutting_down")
    assert "shutting down" in error["message"]
    assert server.wait() == 0


@pytest.mark.parametrize("processes", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_a_second_signal_ends_it_at_once(launch: Launcher, processes: str) -> None:
    server = launch.ready("--shutdown-timeout", "60", "--api-server-count", processes)
    with server.stream(max_tokens=9000):
        server.signal(signal.SIGTERM)
        until(lambda: "shutting down" in server.text)
        server.signal(signal.SIGTERM)
        start = time.monotonic()
        assert server.wait() == 128 + signal.SIGTERM
        assert time.monotonic() - start < 3


def test_nothing_outlives_a_server_that_is_killed(launch: Launcher) -> None:
    server = launch.ready("--api-server-count", "2")
    assert len(server.seen) == 3
    server.signal(signal.SIGKILL)
    server.wait()
