"""Clients that go away in unusual ways."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.server.running import Launcher, RunningServer, until


def running(server: RunningServer) -> int:
    """Sequences that the engine runs."""
    count: int = server.get("/load").json()["running"]
    return count


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_sent_more_requests_than_one_leaves_none_behind(launch: Launcher, stream: bool) -> None:
    server = launch.ready()
    fields: dict[str, Any] = {"prompt": "hello", "max_tokens": 5000, "ignore_eos": True, "stream": stream}
    body = json.dumps(fields).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    address = urlsplit(server.address)
    with socket.create_connection((address.hostname, address.port)) as client:
        client.sendall((head + body) * 3)
        until(lambda: running(server) == 1, what="the first request")
    until(lambda: running(server) == 0, within_s=2, what="its end")
    assert server.complete().status_code == 200
    assert running(server) == 0
    assert "Traceback" not in server.text
