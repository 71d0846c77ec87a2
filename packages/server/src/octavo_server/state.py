"""What the routes of one API process share."""

import asyncio
from typing import TYPE_CHECKING

from fastapi import Request

from octavo import AsyncLLM
from octavo.errors import EngineDeadError
from octavo_server.config import ServerConfig
from octavo_server.errors import ApiError, cut_off, draining, engine_lost, starting
from octavo_server.protocol.body import UnknownFields

if TYPE_CHECKING:
    from octavo_server.metrics.requests import RequestMetrics


class InFlight:
    """Requests that are being answered. For one event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def enter(self) -> None:
        """One more."""
        self.count += 1
        self._idle.clear()

    def leave(self) -> None:
        """One less."""
        self.count -= 1
        if not self.count:
            self._idle.set()

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until there is none; False where there still are some after that time."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True


class ServerState:
    """Everything a route may need; `app.state.server` of the application.

    Attributes:
        config: flags of the server.
        llm: the engine's client; None until the engine was ready for the first time.
        metrics: of requests that this process serves.
        started: unix seconds.
        is_draining: no new requests are taken.
        is_cut_off: nor are those that run answered to their ends.
        in_flight: requests that are being answered, those for health and metrics included.
        unknown_fields: of request bodies, each warned of once.
    """

    def __init__(self, config: ServerConfig, metrics: "RequestMetrics", *, started: int) -> None:
        self.config = config
        self.metrics = metrics
        self.started = started
        self.llm: AsyncLLM | None = None
        self.is_draining = False
        self.is_cut_off = False
        self.in_flight = InFlight()
        self.unknown_fields = UnknownFields()
        self._model_name: str | None = None

    @property
    def loss(self) -> str | None:
        """Why there is no engine at this moment; None while there is one, or the first is still to come."""
        return None if self.llm is None or self.llm.is_alive else str(self.llm.death)

    @property
    def is_ready(self) -> bool:
        """Whether requests are taken."""
        return self.llm is not None and self.llm.is_alive and not self.is_draining

    def serve_with(self, llm: AsyncLLM) -> None:
        """Take requests from now on."""
        self.llm = llm
        self._model_name = llm.model_name

    def ready_llm(self) -> AsyncLLM:
        """The engine's client for a new request. Raises `ApiError` 503 where there is none, and while the server ends."""
        if self.is_draining:
            raise draining()
        if self.loss is not None:
            raise engine_lost(self.loss)
        if self.llm is None:
            raise starting()
        return self.llm

    def loss_of_request(self, error: EngineDeadError) -> ApiError:
        """The answer to a request that the engine will not finish."""
        return cut_off() if self.is_cut_off else engine_lost(str(error))

    def model_names(self) -> tuple[str, ...]:
        """Names that requests may give, the one in answers first. Raises `ApiError` 503 before the first engine was ready."""
        if self.config.served_model_names:
            return self.config.served_model_names
        if self._model_name is None:
            raise starting()
        return (self._model_name,)


def server_state(request: Request) -> ServerState:
    """The state, as a dependency of routes."""
    state = request.app.state.server
    assert isinstance(state, ServerState)
    return state
