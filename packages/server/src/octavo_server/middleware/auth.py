"""API keys: who may ask, and who asks."""

import hmac
from collections.abc import Mapping
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from octavo_server.errors import ApiError
from octavo_server.middleware.route import ROUTE

TENANT = "octavo.tenant"
"""Key of the scope: name of the API key that came with the request."""

OPEN_ROUTES = frozenset({"/health", "/ready", "/ping", "/version"})
METRICS_ROUTE = "/metrics"


class Authentication:
    """Lets through what is for everybody, and what brings a key: as `Authorization: Bearer KEY`, or as `X-Api-Key: KEY`.

    What no route serves needs a key, too. Keys are compared as digests, all of them each time, so that the time tells nothing.

    Args:
        keys: name of a tenant to its key.
        open_routes: declared paths that need none.
    """

    def __init__(self, app: ASGIApp, keys: Mapping[str, str], open_routes: frozenset[str]) -> None:
        self._app = app
        self._digests = [(name, _digest(key)) for name, key in keys.items()]
        self._open_routes = open_routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            tenant = self._tenant(Headers(scope=scope))
            if tenant is None and scope[ROUTE] not in self._open_routes:
                raise _unauthorized()
            scope[TENANT] = tenant or ""
        await self._app(scope, receive, send)

    def _tenant(self, headers: Headers) -> str | None:
        """Name of a key that the request brings; None: it brings none that is known."""
        found = None
        for given in _given_keys(headers):
            digest = _digest(given)
            for name, known in self._digests:
                if hmac.compare_digest(digest, known):
                    found = name
        return found


def tenant_of(request: Request) -> str:
    """Name of the key that came with the request; "" where none did or none is needed."""
    tenant: str = request.scope.get(TENANT, "")
    return tenant


def _given_keys(headers: Headers) -> list[str]:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [key for key in (bearer, headers.get("x-api-key", "").strip()) if key]


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()


def _unauthorized() -> ApiError:
    return ApiError(
        401,
        "a valid API key is needed: send it as 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'",
        code="invalid_api_key",
        headers={"WWW-Authenticate": "Bearer"},
    )
