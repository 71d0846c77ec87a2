"""What becomes of requests and of the server when the engine is lost."""

import os
import signal
import time

import pytest

from tests.server.running import START_S, Launcher, RunningServer, error_of, last_error, until


def lose(server: RunningServer, number: int) -> float:
    """Signal the engine; when."""
    os.kill(server.engine, number)
    return time.monotonic()


@pytest.mark.parametrize("processes", [pytest.param("1", marks=pytest.mark.slow), "2"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_requests_end_with_an_error_and_the_server_ends(launch: Launcher, number: int, processes: str) -> None:
    server = launch.ready("--api-server-count", processes)
    with server.stream(max_tokens=9000) as data:
        lost = lose(server, number)
        error = error_of(list(data))
        assert time.monotonic() - lost < 5
    assert error["code"] == "engine_dead"
    until(lambda: server.status("/health") in {503, None})
    assert server.wait() == 1
    assert "engine" in last_error(server)


def test_health_says_so_before_the_server_ends(launch: Launcher) -> None:
    server = launch.ready()
    lose(server, signal.SIGKILL)
    until(lambda: server.status("/health") == 503)
    assert server.complete().status_code == 503
    assert server.wait() == 1


def test_an_engine_that_fails_is_lost(launch: Launcher) -> None:
    server = launch.ready("--runner", "failing")
    with server.stream(max_tokens=100) as data:
        assert "the device is gone" in error_of(list(data))["message"]
    assert server.wait() == 1


@pytest.mark.parametrize("processes", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_another_engine_is_started_where_that_is_wanted(launch: Launcher, processes: str) -> None:
    server = launch.ready("--restart-engine", "--api-server-count", processes)
    answer = server.complete().json()["choices"][0]["text"]
    for number in (signal.SIGKILL, signal.SIGSTOP):
        first = server.engine
        with server.stream(max_tokens=9000) as data:
            lose(server, number)
            assert error_of(list(data))["code"] == "engine_dead"
        until(lambda: server.descendants("octavo.engine.process") not in ([], [first]), what="another engine")  # noqa: B023
        until(lambda: server.complete().status_code == 200, within_s=START_S)
        assert server.complete().json()["choices"][0]["text"] == answer
        server.seen |= set(server.descendants())
    assert server.text.count("another engine is started") == 2
    server.signal()
    assert server.wait() == 0


@pytest.mark.slow
def test_a_stop_in_the_life_of_the_api_process_does_not_end_the_server(launch: Launcher) -> None:
    server = launch.ready()
    server.signal(signal.SIGSTOP)
    deadline = time.monotonic() + 12
    until(lambda: time.monotonic() > deadline, within_s=15)
    server.signal(signal.SIGCONT)
    until(lambda: server.status("/ready") == 200)
    assert server.complete().status_code == 200
