"""The application above a whole engine on the fake device, and a client that speaks ASGI with it as a server would."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import FastAPI

from octavo import AsyncLLM
from octavo.testing.llm import FakeLLM, fake_llm
from octavo_server.app import create_app
from octavo_server.config import ServerConfig
from octavo_server.metrics.requests import RequestMetrics
from octavo_server.state import ServerState

TIMEOUT_S = 30


@dataclass(frozen=True)
class Answer:
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The envelope of an error, whole."""
        assert list(self.json) == ["error"], self
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert self.headers["content-type"] == "application/json"
        return error

    @property
    def events(self) -> list[Any]:
        """What a stream said, the closing [DONE] checked and left out."""
        assert self.status == 200, self
        assert self.headers["content-type"].startswith("text/event-stream")
        *parts, rest = self.body.decode().split("\n\n")
        assert rest == ""
        assert all(part.startswith("data: ") for part in parts)
        values = [part.removeprefix("data: ") for part in parts]
        assert values[-1] == "[DONE]"
        return [json.loads(value) for value in values[:-1]]


class Exchange:
    """A request under way. The client may read slowly, and may hang up."""

    def __init__(self, app: FastAPI, path: str, body: bytes, headers: dict[str, str]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.received: list[bytes] = []
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._hung_up = asyncio.Event()
        self._news = asyncio.Event()
        self._pending = [body]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 8000),
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        if self._pending:
            return {"type": "http.request", "body": self._pending.pop(), "more_body": False}
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self._may_read.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.received.append(message.get("body", b""))
        self._news.set()

    async def first_part(self) -> bytes:
        """Wait until a part of the body came."""
        while not self.received:
            assert not self.task.done(), "the response ended before a part of its body came"
            self._news.clear()
            await self._news.wait()
        return self.received[0]

    def stop_reading(self) -> None:
        self._may_read.clear()

    def go_on_reading(self) -> None:
        self._may_read.set()

    async def hang_up(self) -> None:
        """Close the connection and wait for the application."""
        self._hung_up.set()
        self._may_read.set()
        await asyncio.wait_for(self.task, TIMEOUT_S)

    async def finish(self) -> Answer:
        await asyncio.wait_for(self.task, TIMEOUT_S)
        return Answer(self.status, self.headers, b"".join(self.received))


@dataclass
class Client:
    """Asks an application."""

    app: FastAPI
    state: ServerState
    llm: AsyncLLM
    fake: FakeLLM | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def begin(self, path: str, body: Any, **headers: str) -> Exchange:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Exchange(self.app, path, data, {"content-type": "application/json", **self.headers, **headers})

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        return await self.begin(path, body, **headers).finish()

    async def complete(self, prompt: Any = "hello", **fields: Any) -> Answer:
        return await self.post("/v1/completions", {"prompt": prompt, "temperature": 0, **fields})

    async def chat(self, content: Any = "hello", **fields: Any) -> Answer:
        return await self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "temperature": 0, **fields})

    async def assert_idle(self) -> None:
        """No request is left behind, and no block is held."""
        deadline = asyncio.get_running_loop().time() + TIMEOUT_S
        while True:
            stats = await self.llm.stats()
            if (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0):
                return
            assert asyncio.get_running_loop().time() < deadline, stats


Scenario = Callable[[Client], Awaitable[None]]
WithClient = Callable[..., None]


@asynccontextmanager
async def serving(llm: AsyncLLM, fake: FakeLLM | None, flags: dict[str, Any]) -> AsyncIterator[Client]:
    state = ServerState(ServerConfig(**flags), RequestMetrics(), started=1_700_000_000)
    state.serve_with(llm)
    async with llm:
        yield Client(create_app(state), state, llm, fake)


def repeated(script: Sequence[int]) -> Callable[[str, int, int], int]:
    """Every request gets these tokens, and the model goes on where they end."""
    return lambda request_id, index, token_id: script[index] if index < len(script) else token_id


@pytest.fixture
def with_client() -> WithClient:
    """Run `async def scenario(client)` against a fake engine, which is idle afterwards.

    `words` are the tokens from id 3 on; `script` are the ids that every request gets; `flags` are those of the server; the rest goes to
    `octavo.testing.llm.fake_llm`.
    """

    def run(
        scenario: Scenario,
        *,
        words: Sequence[str] = ("hello", "there", "world"),
        script: Sequence[int] | None = None,
        flags: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        async def main() -> None:
            draw = None if script is None else repeated(script)
            fake = fake_llm(words=words, draw=draw, **options)
            async with serving(AsyncLLM.from_engine(fake.llm.engine), fake, flags or {}) as client:
                await scenario(client)
                if client.llm.is_alive:
                    await client.assert_idle()

        asyncio.run(asyncio.wait_for(main(), 2 * TIMEOUT_S))

    return run
