"""Nothing but health, metrics and documentation is answered without an engine, nor once the server was told to end."""

from starlette.types import ASGIApp, Receive, Scope, Send

from octavo_server.middleware.auth import METRICS_ROUTE, OPEN_ROUTES
from octavo_server.middleware.route import ROUTE
from octavo_server.state import ServerState

ALWAYS_SERVED = OPEN_ROUTES | {METRICS_ROUTE, "/load", "/docs", "/docs/oauth2-redirect", "/openapi.json"}


class Availability:
    """Refuses requests with 503 while they cannot be served; what no route serves stays 404 or 405."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope[ROUTE] is not None and scope[ROUTE] not in ALWAYS_SERVED:
            self._state.ready_llm()
        await self._app(scope, receive, send)
