"""What Prometheus scrapes."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from octavo_server.metrics.exposition import expose
from octavo_server.state import ServerState, server_state

router = APIRouter()


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request, state: Annotated[ServerState, Depends(server_state)]) -> Response:
    """All metrics, in the format that the client asks for."""
    loaded = None if state.llm is None else state.llm.model_name
    model = next(iter(state.config.served_model_names), loaded)
    page, content_type = await expose(state.metrics, state.llm, model, accept=request.headers.get("accept", ""))
    return Response(page, media_type=content_type)
