"""What clients can make a server do before anything is known of their request."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from octavo_server import http_protocol, http_server
from octavo_server.config import ServerConfig
from octavo_server.connections import close_behind_answer
from octavo_server.http_server import HttpServer

HEAD = b"GET /a HTTP/1.1\r\nhost: a\r\n"
POST = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n"


class Application:
    """Answers with the length of the body; waits for `may_answer` where the path is /wait, and for the client to go at /listen."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.gone = asyncio.Event()
        self.sees_body = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        if scope["path"] == "/last":
            close_behind_answer(scope)
        while self.sees_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone.set()
                return
            body += message["body"]
            if not message["more_body"]:
                break
        if scope["path"] == "/listen":
            assert (await receive())["type"] == "http.disconnect"
            self.gone.set()
            return
        if scope["path"] == "/wait":
            await self.may_answer.wait()
        answer = str(len(body)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(answer)).encode())]})
        await send({"type": "http.response.body", "body": answer})


class Connection:
    """A client that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return int(head.split()[1]), await self.reader.readexactly(length)

    async def error(self) -> tuple[int, dict[str, Any]]:
        """Status and error of the next answer, behind which the connection ends."""
        status, body = await self.answer()
        assert await self.reader.read() == b""
        error: dict[str, Any] = json.loads(body)["error"]
        return status, error


class Site:
    def __init__(self, app: Application, server: HttpServer, port: int) -> None:
        self.app, self.server, self.port = app, server, port
        self.connections: list[Connection] = []

    async def connect(self) -> Connection:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", self.port))
        self.connections.append(connection)
        return connection


@asynccontextmanager
async def serving(**flags: Any) -> AsyncIterator[Site]:
    listener = socket.create_server(("127.0.0.1", 0))
    app = Application()
    server = HttpServer(app, ServerConfig(**flags))
    task = server.start(listener)
    site = Site(app, server, listener.getsockname()[1])
    try:
        yield site
    finally:
        app.may_answer.set()
        for connection in site.connections:
            connection.writer.close()
        server.stop()
        await task


Run = Callable[..., None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `scenario(site)`; times given as `HEAD_S=…` replace those of the protocol."""

    def do(scenario: Callable[[Site], Coroutine[Any, Any, None]], flags: dict[str, Any] | None = None, **times: float) -> None:
        monkeypatch.setattr(http_server, "_LOOK_EVERY_S", 0.05)
        for name, seconds in times.items():
            monkeypatch.setattr(http_protocol, name, seconds)

        async def main() -> None:
            async with serving(**(flags or {})) as site:
                await scenario(site)

        asyncio.run(asyncio.wait_for(main(), 30))

    return do


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
def test_a_head_that_is_too_long_is_refused(run: Run, end: bytes) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()
        await client.send(HEAD + b"x: " + b"a" * http_protocol.MAX_HEAD_BYTES + end)
        status, error = await client.error()
        assert (status, error["type"]) == (431, "invalid_request_error")
        assert "65,536 bytes" in error["message"]

    run(scenario)


def test_who_goes_on_sending_an_endless_head_is_cut_off(run: Run) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()

        async def send_endlessly() -> None:
            while True:
                await client.send(b"GET /" + b"a" * 2**18)

        with pytest.raises(ConnectionError):
            await send_endlessly()

    run(scenario, _FAREWELL_S=0.1)


@pytest.mark.parametrize("num_bytes", [10, 60_000])
def test_a_head_up_to_the_limit_and_a_long_body_are_read_as_they_come(run: Run, num_bytes: int) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()
        head = b"POST /a HTTP/1.1\r\nx: " + b"a" * num_bytes + b"\r\ncontent-length: 500000\r\n\r\n"
        for _ in range(2):
            await client.send(head + b"b" * 500_000)
            assert await client.answer() == (200, b"500000")
        await client.send(head.replace(b"content-length: 500000", b"transfer-encoding: chunked") + b"1\r\nb\r\n" * 50_000 + b"0\r\n\r\n")
        assert await client.answer() == (200, b"50000")

    run(scenario)


def test_what_lies_behind_the_last_chunk_is_bounded_too(run: Run) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()
        await client.send(b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nb\r\n0\r\nx: " + b"a" * 200_000)
        assert (await client.error())[0] == 431

    run(scenario)


def test_who_takes_too_long_for_a_head_or_pauses_in_a_body_is_told_so(run: Run) -> None:
    async def scenario(site: Site) -> None:
        silent, slow, body = [await site.connect() for _ in range(3)]
        await slow.send(HEAD)
        await body.send(POST + b"abc")
        assert await silent.reader.read() == b""
        status, error = await slow.error()
        assert (status, "head" in error["message"]) == (408, True)
        status, error = await body.error()
        assert (status, "body" in error["message"]) == (408, True)
        await asyncio.wait_for(site.app.gone.wait(), 5)

    run(scenario, HEAD_S=0.2, BODY_S=0.2, _FAREWELL_S=0.1)


def test_who_sends_a_body_bit_by_bit_and_waits_for_an_answer_has_time(run: Run) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()
        await client.send(POST.replace(b"/a", b"/wait"))
        for _ in range(10):
            await asyncio.sleep(0.1)
            await client.send(b"a")
        await asyncio.sleep(0.6)
        site.app.may_answer.set()
        assert await client.answer() == (200, b"10")

    run(scenario, HEAD_S=0.4, BODY_S=0.4)


def test_time_in_which_the_server_stood_still_is_nobody_elses_fault(run: Run) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()
        await client.send(POST + b"abc")
        await asyncio.sleep(0.3)
        site.server._looked_at -= 1000
        await asyncio.sleep(0.3)
        await client.send(b"a" * 7)
        assert await client.answer() == (200, b"10")

    run(scenario, HEAD_S=100, BODY_S=100)


def test_an_idle_connection_gives_way_and_a_busy_one_does_not(run: Run) -> None:
    async def scenario(site: Site) -> None:
        idle, busy = await site.connect(), await site.connect()
        await idle.send(HEAD + b"\r\n")
        assert await idle.answer() == (200, b"0")
        await busy.send(HEAD.replace(b"/a", b"/wait") + b"\r\n")
        await asyncio.sleep(0.1)
        third = await site.connect()
        assert await idle.reader.read() == b""
        await third.send(HEAD)
        while third.writer.transport.get_write_buffer_size():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        status, error = await (await site.connect()).error()
        assert (status, error["code"]) == (503, "too_many_connections")
        assert "--max-connections" in error["message"]
        await third.send(b"\r\n")
        assert await third.answer() == (200, b"0")
        site.app.may_answer.set()
        assert await busy.answer() == (200, b"0")

    run(scenario, {"max_connections": 2})


def test_requests_that_wait_behind_another_are_few(run: Run) -> None:
    async def scenario(site: Site) -> None:
        client, flood = await site.connect(), await site.connect()
        await client.send((HEAD + b"\r\n") * 20)
        assert [await client.answer() for _ in range(20)] == [(200, b"0")] * 20
        await flood.send((HEAD.replace(b"/a", b"/wait") + b"\r\n") * 1000)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await flood.answer()

    run(scenario)


@pytest.mark.parametrize(
    ("num_waiting", "is_first_answered"), [(0, False), (0, True), (1, False), (1, True), (http_protocol.MAX_PIPELINED + 1, False)]
)
def test_who_hangs_up_ends_the_request_that_is_being_answered(run: Run, num_waiting: int, is_first_answered: bool) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()
        listen = (HEAD.replace(b"/a", b"/listen") + b"\r\n") * (1 + num_waiting)
        await client.send(HEAD + b"\r\n" + listen if is_first_answered else listen)
        if is_first_answered:
            await client.answer()
        if num_waiting <= http_protocol.MAX_PIPELINED:
            client.writer.close()
        await site.app.gone.wait()

    run(scenario)


def test_an_error_goes_into_no_other_answer(run: Run) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()
        await client.send(HEAD.replace(b"/a", b"/wait") + b"\r\nnonsense\r\n\r\n")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.answer()

    run(scenario)


@pytest.mark.parametrize("request_line", [b"nonsense", b"GET http://[ HTTP/1.1"])
def test_what_is_no_http_has_the_envelope_of_errors(run: Run, request_line: bytes) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()
        await client.send(request_line + b"\r\n\r\n")
        status, error = await client.error()
        assert (status, error["type"]) == (400, "invalid_request_error")

    run(scenario)


def test_an_application_may_have_the_connection_closed_behind_its_answer(run: Run) -> None:
    async def scenario(site: Site) -> None:
        client = await site.connect()
        await client.send(HEAD.replace(b"/a", b"/last") + b"\r\n")
        assert await client.answer() == (200, b"0")
        assert await client.reader.read() == b""

    run(scenario)


def test_an_answer_before_the_end_of_the_body_leaves_the_connection_usable(run: Run) -> None:
    async def scenario(site: Site) -> None:
        site.app.sees_body = False
        client = await site.connect()
        await client.send(POST)
        assert await client.answer() == (200, b"0")
        await client.send(b"a" * 10 + HEAD + b"\r\n")
        assert await client.answer() == (200, b"0")

    run(scenario)
