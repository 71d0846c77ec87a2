"""Several API processes on one socket."""

import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.server.running import START_S, Launcher, until

API = "octavo_server.supervised"


@pytest.mark.parametrize("over_path", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_process_that_dies_is_replaced_and_the_others_go_on(launch: Launcher, tmp_path: Path, over_path: bool) -> None:
    server = launch.ready("--api-server-count", "2", uds=tmp_path / "s" if over_path else None)
    until(lambda: server.text.count("ready: ") == 2, within_s=START_S)
    first, second = server.descendants(API)
    with server.stream(max_tokens=300) as data:
        os.kill(first, signal.SIGKILL)
        until(lambda: first not in server.descendants(API))
        try:
            last = list(data)[-1]
        except httpx.TransportError:
            last = "its own process died"
    assert last in {"[DONE]", "its own process died"}
    until(lambda: server.text.count("ready: ") == 3, within_s=START_S)
    assert len(server.descendants(API)) == 2
    assert second in server.descendants(API)
    assert all(server.complete().status_code == 200 for _ in range(6))
    server.seen |= set(server.descendants())
    server.signal()
    assert server.wait() == 0


def test_a_process_that_is_stopped_harms_nobody_and_goes_on(launch: Launcher) -> None:
    server = launch.ready("--api-server-count", "2")
    until(lambda: server.text.count("ready: ") == 2, within_s=START_S)
    first, second = server.descendants(API)
    os.kill(first, signal.SIGSTOP)
    assert all(server.complete().status_code == 200 for _ in range(6))
    os.kill(first, signal.SIGCONT)
    assert all(server.complete().status_code == 200 for _ in range(6))
    assert server.descendants(API) == [first, second]
    server.signal()
    assert server.wait() == 0


def test_keys_are_in_no_command_line_but_the_users(launch: Launcher, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("alice: sk-secret\n")
    server = launch.ready("--api-server-count", "2", "--api-key-file", str(keys))
    answer = server.get("/v1/models", headers={"x-api-key": "sk-secret"})
    assert answer.status_code == 200
    for pid in (server.process.pid, *server.descendants()):
        assert "sk-secret" not in Path(f"/proc/{pid}/cmdline").read_text()
    assert "sk-secret" not in server.text


def test_metrics_count_the_requests_of_all(launch: Launcher) -> None:
    server = launch.ready("--api-server-count", "2")
    for _ in range(8):
        assert server.complete().status_code == 200
    (line,) = [
        line
        for line in server.get("/metrics").text.splitlines()
        if line.startswith("octavo:request_success_total{") and 'finished_reason="length"' in line
    ]
    assert float(line.rpartition(" ")[2]) == 8
