"""Clients that go away in unusual ways, or do not read."""

import json
import os
import re
import socket
import struct
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.server.running import Launcher, RunningServer, until


def running(server: RunningServer) -> int:
    """Sequences that the engine runs."""
    count: int = server.get("/load").json()["running"]
    return count


def request(**fields: Any) -> bytes:
    """A request for an answer that ends where its fields say."""
    body = json.dumps({"prompt": "hello", "ignore_eos": True, **fields}).encode()
    return f"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_sent_more_requests_than_one_leaves_none_behind(launch: Launcher, stream: bool) -> None:
    server = launch.ready()
    address = urlsplit(server.address)
    with socket.create_connection((address.hostname, address.port)) as client:
        client.sendall(request(max_tokens=5000, stream=stream) * 3)
        until(lambda: running(server) == 1, what="the first request")
    until(lambda: running(server) == 0, within_s=2, what="its end")
    assert server.complete().status_code == 200
    assert running(server) == 0
    assert "Traceback" not in server.text


def open_stream(server: RunningServer, **fields: Any) -> socket.socket:
    """A connection on which a stream was asked for; nothing of it is read."""
    address = urlsplit(server.address)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((address.hostname, address.port))
    client.sendall(request(stream=True, **fields))
    return client


def kv_use(server: RunningServer) -> float:
    match = re.search(r"^octavo:kv_cache_usage_perc\S* (\S+)$", server.get("/metrics").text, re.MULTILINE)
    assert match
    return float(match[1])


def test_blocks_of_64_clients_that_drop_come_back_at_once(launch: Launcher) -> None:
    server = launch.ready()
    clients = [open_stream(server, max_tokens=5000) for _ in range(64)]
    until(lambda: running(server) == 64, what="64 streams")
    assert kv_use(server) > 0
    for index, client in enumerate(clients):
        if index % 2:
            # Without a farewell: the other side sees a reset.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    until(lambda: running(server) == 0 and kv_use(server) == 0, within_s=2, what="the end of all")
    assert server.complete().status_code == 200


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_clients_that_read_nothing_hold_up_nobody_and_cost_no_more_than_their_answers(launch: Launcher) -> None:
    server = launch.ready()
    before = resident_bytes(server.process.pid)
    clients = [open_stream(server, max_tokens=150, n=8, logprobs=20) for _ in range(8)]
    until(lambda: running(server) == 64, what="64 sequences")
    while running(server):
        assert server.complete().status_code == 200
        assert resident_bytes(server.process.pid) - before < 64 << 20
    assert kv_use(server) == 0
    for client in clients:
        client.close()
    assert server.complete().status_code == 200
