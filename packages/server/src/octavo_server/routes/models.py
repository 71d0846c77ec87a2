"""`/v1/models`: the names that requests may give."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from octavo_server.errors import model_not_found
from octavo_server.state import ServerState, server_state

router = APIRouter(tags=["models"])

State = Annotated[ServerState, Depends(server_state)]


class ModelCard(BaseModel):
    """One name of the model.

    Attributes:
        id: the name.
        created: unix seconds when the server started.
        owned_by: who serves it.
        root: the model's own name.
        max_model_len: longest prompt and output together, in tokens.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "octavo"
    root: str
    max_model_len: int


class ModelList(BaseModel):
    """Every name."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


@router.get("/v1/models")
async def list_models(state: State) -> ModelList:
    """The model under each of its names."""
    return ModelList(data=[_card(state, name) for name in state.model_names()])


@router.get("/v1/models/{model:path}")
async def show_model(model: str, state: State) -> ModelCard:
    """The model under one of its names, which may hold slashes."""
    if model not in state.model_names():
        raise model_not_found(model, state.model_names())
    return _card(state, model)


def _card(state: ServerState, name: str) -> ModelCard:
    llm = state.ready_llm()
    return ModelCard(id=name, created=state.started, root=llm.model_name, max_model_len=llm.info.max_model_len)
