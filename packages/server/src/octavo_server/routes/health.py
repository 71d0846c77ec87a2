"""Whether the server lives, whether it takes requests, what it is and how much it does."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel

import octavo
from octavo_server.errors import draining, engine_lost, starting
from octavo_server.state import ServerState, server_state

router = APIRouter(tags=["health"])

State = Annotated[ServerState, Depends(server_state)]


class Status(BaseModel):
    """Answer of the probes."""

    status: Literal["ok"] = "ok"


class Version(BaseModel):
    """What runs here."""

    version: str


class Load(BaseModel):
    """How much this process has to do.

    Attributes:
        server_load: requests that are being answered, this one not counted.
        running: sequences that the engine runs; 0 where no engine is ready.
        waiting: sequences that wait to be run.
        waiting_tokens: of their prompts.
    """

    server_load: int
    running: int
    waiting: int
    waiting_tokens: int


async def health(state: State) -> Status:
    """200 while the server lives, 503 where its engine is dead or frozen. Also 200 while the model is being loaded."""
    if state.loss is not None:
        raise engine_lost(state.loss)
    return Status()


async def ready(state: State) -> Status:
    """200 where requests are taken; 503 while the model is being loaded, while the server shuts down, and without an engine."""
    if state.is_draining:
        raise draining()
    if state.loss is not None:
        raise engine_lost(state.loss)
    if state.llm is None:
        raise starting()
    return Status()


async def version() -> Version:
    """The version of Octavo."""
    return Version(version=octavo.__version__)


async def load(state: State) -> Load:
    """How many requests run and wait."""
    others = state.in_flight.count - 1
    if state.llm is None:
        return Load(server_load=others, running=0, waiting=0, waiting_tokens=0)
    engine = state.llm.load()
    return Load(server_load=others, running=engine.running, waiting=engine.waiting, waiting_tokens=engine.waiting_tokens)


for path, probe in (("/health", health), ("/ready", ready), ("/ping", health)):
    router.add_api_route(path, probe, methods=["GET"], name=path[1:])
    # Some load balancers probe this way; a second operation of the same name would only clutter the documentation.
    router.add_api_route(path, probe, methods=["HEAD"], include_in_schema=False, name=path[1:])
router.add_api_route("/ping", health, methods=["POST"], name="ping_post")
router.add_api_route("/version", version, methods=["GET"])
router.add_api_route("/load", load, methods=["GET"])
