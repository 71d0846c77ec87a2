"""Finds the route that will serve a request, so that what is decided about it never hangs on how its path is spelled."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

ROUTE = "octavo.route"
"""Key of the scope: path of the route as it was declared, such as `/v1/models/{model}`; None where no route serves the request."""


class FindRoute:
    """Writes `ROUTE` into the scope.

    Args:
        routes: of the router below, in its order; the list may still grow.
        root_path: under which a proxy serves the application; paths may come with or without it.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], root_path: str) -> None:
        self._app = app
        self._routes = routes
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if self._root_path:
                scope["root_path"] = self._root_path
            scope[ROUTE] = self._serving(scope)
        await self._app(scope, receive, send)

    def _serving(self, scope: Scope) -> str | None:
        for route in self._routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                path: str | None = getattr(route, "path", None)
                return path
        return None
