import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from octavo.cli.main import run
from octavo_server.bench.record import RequestRecord


@dataclass(frozen=True)
class Answer:
    """What the fake server answers a request with: pieces of the body, a pause before each, and how it ends."""

    pieces: tuple[bytes, ...] = ()
    status: int = 200
    pause_s: float = 0.0
    is_cut: bool = False
    holds: bool = False


def event(**chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def completion(num_tokens: int, *, usage: dict[str, Any] | None = None, end: str = "length", done: bool = True) -> list[bytes]:
    """Events of a completion whose last token comes with the reason of its end."""
    events = [event(choices=[{"index": 0, "text": " a", "finish_reason": None}]) for _ in range(num_tokens - 1)]
    events.append(event(choices=[{"index": 0, "text": " z", "finish_reason": end}]))
    if usage is not None:
        events.append(event(choices=[], usage=usage))
    return [*events, b"data: [DONE]\n\n"] if done else events


@dataclass
class FakeServer:
    """A server in a thread of its own that answers by a script; `bodies` and `headers` are those of requests that came."""

    port: int = 0
    script: Callable[[dict[str, Any]], Answer] = lambda _: Answer()
    models: Answer | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def list_models(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        if self.models is not None:
            return web.Response(body=b"".join(self.models.pieces), status=self.models.status)
        return web.json_response({"data": [{"id": "first"}, {"id": "second", "vocab_size": 50}]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.paths.append(request.path)
        answer = self.script(body)
        if answer.status != 200:
            return web.Response(body=b"".join(answer.pieces), status=answer.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in answer.pieces:
            await asyncio.sleep(answer.pause_s)
            await response.write(piece)
        if answer.holds:
            await asyncio.Event().wait()
        if answer.is_cut:
            assert request.transport is not None
            request.transport.close()
        return response


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """Answers every completion with four tokens and says how many they were."""
    usage = {"prompt_tokens": 7, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}
    fake = FakeServer(script=lambda _: Answer(tuple(completion(4, usage=usage))))
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(_application(fake), handler_cancellation=True, shutdown_timeout=0.1)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        fake.port = runner.addresses[0][1]

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield fake
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(timeout=10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=10)
    loop.close()


def _application(fake: FakeServer) -> web.Application:
    application = web.Application(client_max_size=2**26)
    application.add_routes(
        [
            web.get("/v1/models", fake.list_models),
            web.post("/v1/completions", fake.complete),
            web.post("/v1/chat/completions", fake.complete),
        ]
    )
    return application


@pytest.fixture
def answers() -> Callable[..., Answer]:
    """Makes answers."""
    return Answer


@pytest.fixture
def events() -> Callable[..., list[bytes]]:
    """Makes the events of a completion."""
    return completion


@dataclass(frozen=True)
class Finished:
    """What a command line left."""

    code: int
    out: str
    err: str


@pytest.fixture
def octavo(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Finished]]:
    """Run a command line in this process, with the server's plugin alone."""
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", "server")
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def call(*arguments: str) -> Finished:
        capfd.readouterr()
        code = run(arguments)
        captured = capfd.readouterr()
        return Finished(code, captured.out, captured.err)

    yield call
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def record() -> Callable[..., RequestRecord]:
    """Makes the record of a request that was sent at 0."""

    def make(**values: Any) -> RequestRecord:
        return RequestRecord(**{"due": 0.0, "sent": 0.0, "ended": 1.0, **values})

    return make
