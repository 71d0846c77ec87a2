"""Applications above an engine that does nothing, and clients of them."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Request

import octavo_server.app
from octavo.engine.load import EngineLoad
from octavo.engine.messages import ModelInfo
from octavo.errors import EngineDeadError, InvalidRequestError
from octavo.metrics.stats import EngineCounters, EngineStats
from octavo_server.config import ServerConfig
from octavo_server.metrics.requests import RequestMetrics
from octavo_server.middleware.auth import tenant_of
from octavo_server.state import ServerState, server_state

router = APIRouter()


@dataclass
class IdleLLM:
    """What the server asks an engine's client, without an engine."""

    model_name: str = "tiny"
    info: ModelInfo = field(
        default_factory=lambda: ModelInfo(
            vocab_size=512, max_model_len=128, eos_token_ids=[2], block_size=16, num_blocks=12, max_pool_tokens=176, max_num_seqs=4
        )
    )
    death: EngineDeadError | None = None
    running: int = 0
    waiting: int = 0
    waiting_tokens: int = 0

    @property
    def is_alive(self) -> bool:
        return self.death is None

    async def stats(self) -> EngineStats:
        return EngineStats(counters=EngineCounters(), running=self.running, waiting=self.waiting, kv_usage=0.0)

    def load(self) -> EngineLoad:
        return EngineLoad(running=self.running, waiting=self.waiting, waiting_tokens=self.waiting_tokens)


@router.post("/echo")
async def echo(request: Request) -> dict[str, Any]:
    return {"tenant": tenant_of(request), "length": len(await request.body())}


@router.post("/number")
async def number(value: dict[str, int]) -> dict[str, int]:
    return value


@router.get("/fail/{how}")
async def fail(how: str) -> None:
    raise {
        "bug": KeyError("the secret of the house"),
        "invalid": InvalidRequestError("temperature -1 is below 0: give 0 or more", param="temperature", code="too_cold"),
        "dead": EngineDeadError("killed"),
    }[how]


@router.get("/needs/state")
async def needs_state(state: ServerState = Depends(server_state)) -> dict[str, bool]:  # noqa: B008
    return {"ready": state.is_ready}


MakeState = Callable[..., ServerState]
MakeApp = Callable[..., FastAPI]


@pytest.fixture
def make_state() -> MakeState:
    """A state of the flags that are given, above an idle engine unless `llm` says otherwise."""

    def make(*, llm: Any = "idle", **flags: Any) -> ServerState:
        state = ServerState(ServerConfig(**flags), RequestMetrics(), started=1_700_000_000)
        if llm is not None:
            state.serve_with(IdleLLM() if llm == "idle" else llm)
        return state

    return make


@pytest.fixture
def make_app(make_state: MakeState, monkeypatch: pytest.MonkeyPatch) -> MakeApp:
    """An application with all of its routes, and a few more that do what tests need."""
    monkeypatch.setattr(octavo_server.app, "ROUTE_MODULES", (*octavo_server.app.ROUTE_MODULES, __name__))
    return lambda **given: octavo_server.app.create_app(make_state(**given))


@dataclass(frozen=True)
class Answer:
    """What an application sent."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The envelope of an error, whole."""
        assert self.headers["content-type"] == "application/json"
        (error,) = self.json.values()
        assert list(self.json) == ["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]
        assert error["type"]
        return error


Ask = Callable[..., Answer]


async def call(app: FastAPI, method: str, path: str, headers: dict[str, str], chunks: list[bytes]) -> Answer:
    """Ask an application as a server would, with the path as it is written."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8000),
    }
    pending = [{"type": "http.request", "body": chunk, "more_body": bool(left)} for left, chunk in enumerate(reversed(chunks))]
    sent: list[Any] = []

    async def receive() -> Any:
        return pending.pop() if pending else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *parts = sent
    names = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], names, b"".join(part.get("body", b"") for part in parts))


@pytest.fixture
def ask() -> Ask:
    """Ask an application; `body` is bytes, a list of chunks, or something to send as JSON."""

    def do(app: FastAPI, path: str, body: Any = None, *, method: str | None = None, key: str | None = None, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            given["authorization"] = f"Bearer {key}"
        if body is None:
            chunks = [b""]
        elif isinstance(body, list):
            chunks = body
        else:
            chunks = [body if isinstance(body, bytes) else json.dumps(body).encode()]
            given = {"content-type": "application/json", "content-length": str(len(chunks[0]))} | given
        return asyncio.run(call(app, method or ("GET" if body is None else "POST"), path, given, chunks))

    return do


@pytest.fixture
def open_client() -> Callable[[FastAPI], httpx.AsyncClient]:
    """A client of an application in this event loop, for what `ask` is too simple for."""
    return lambda app: httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://server")


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Undo what a test does to the root logger."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
