"""What is known of a request whose body has been read."""

import time
from dataclasses import dataclass
from typing import Self

from fastapi import Request

from octavo import AsyncLLM
from octavo_server.errors import model_not_found
from octavo_server.logs import REQUEST_ID
from octavo_server.metrics.observation import RequestObservation
from octavo_server.middleware.auth import tenant_of
from octavo_server.state import ServerState


@dataclass(frozen=True, kw_only=True)
class Call:
    """One HTTP request that wants tokens.

    Attributes:
        state: of the process.
        llm: the engine's client.
        tenant: name of the key that came with it.
        model: name of the model in the answer.
        request_id: name of the request, without a prefix.
        created: unix seconds.
    """

    state: ServerState
    llm: AsyncLLM
    tenant: str
    model: str
    request_id: str
    created: int

    @classmethod
    def of(cls, request: Request, state: ServerState, *, model: str | None, request_id: str | None = None) -> Self:
        """Of a request for a model by name; None is the one that there is. Raises `ApiError` 404 for an unknown name, and 503."""
        return cls(
            state=state,
            llm=state.ready_llm(),
            tenant=tenant_of(request),
            model=served_model(state, model),
            request_id=request_id or REQUEST_ID.get(),
            created=int(time.time()),
        )

    def observe(self, num_prompts: int) -> list[RequestObservation]:
        """What counts and times the prompts, from now on."""
        return [self.state.metrics.request(self.tenant, self.model) for _ in range(num_prompts)]


def served_model(state: ServerState, name: str | None) -> str:
    """The name in answers. Raises `ApiError` 404 for a name that is not served."""
    names = state.model_names()
    if name is not None and name not in names:
        raise model_not_found(name, names)
    return names[0]
