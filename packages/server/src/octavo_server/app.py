"""The application: routes, and what stands in front of them."""

import importlib
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

import octavo
from octavo_server.config import CorsConfig, ServerConfig
from octavo_server.error_handlers import install_error_handlers
from octavo_server.middleware.access_log import AccessLog
from octavo_server.middleware.auth import METRICS_ROUTE, OPEN_ROUTES, Authentication
from octavo_server.middleware.availability import Availability
from octavo_server.middleware.body import BodyLimits
from octavo_server.middleware.failures import Failures
from octavo_server.middleware.request_id import HEADER, RequestIds
from octavo_server.middleware.route import FindRoute
from octavo_server.openapi import describe
from octavo_server.state import ServerState

ROUTE_MODULES = (
    "octavo_server.routes.completions",
    "octavo_server.routes.chat",
    "octavo_server.routes.messages",
    "octavo_server.routes.tokenize",
    "octavo_server.routes.models",
    "octavo_server.routes.health",
    "octavo_server.routes.metrics",
)
"""Modules with a `router` each, in the order in which paths are looked up."""


def create_app(state: ServerState) -> FastAPI:
    """The ASGI application of one API process. All errors are in OpenAI's envelope, and decided before the first byte of an answer."""
    config = state.config
    app = FastAPI(
        title="Octavo",
        description="An LLM inference server with OpenAI's API.",
        version=octavo.__version__,
        docs_url="/docs" if config.docs else None,
        redoc_url=None,
        openapi_url="/openapi.json" if config.docs else None,
        # Another spelling of a path is another path, for routing as for keys.
        redirect_slashes=False,
    )
    app.state.server = state
    install_error_handlers(app)
    for name in ROUTE_MODULES:
        router = importlib.import_module(name).router
        assert isinstance(router, APIRouter)
        # Not included but taken over, so that `app.routes` lists what is served, each route with its path.
        app.router.routes.extend(router.routes)
    open_routes = OPEN_ROUTES if config.protect_metrics else OPEN_ROUTES | {METRICS_ROUTE}
    app.user_middleware.extend(_middleware(app, state, open_routes))
    _document(app, config, open_routes)
    return app


def _middleware(app: FastAPI, state: ServerState, open_routes: frozenset[str]) -> list[Middleware]:
    """From the outermost to the innermost. What is outside of `Failures` must not raise."""
    config = state.config
    stack = [Middleware(RequestIds, in_flight=state.in_flight)]
    if config.access_log:
        stack.append(Middleware(AccessLog))
    if config.cors.origins:
        stack.append(_cors(config.cors))
    stack += [Middleware(Failures), Middleware(FindRoute, routes=app.router.routes, root_path=config.root_path)]
    if config.api_keys:
        stack.append(Middleware(Authentication, keys=config.api_keys, open_routes=open_routes))
    stack.append(Middleware(Availability, state=state))
    stack.append(Middleware(BodyLimits, max_bytes=config.max_request_bytes, max_depth=config.max_json_depth))
    return stack


def _cors(config: CorsConfig) -> Middleware:
    return Middleware(
        CORSMiddleware,
        allow_origins=config.origins,
        allow_methods=config.methods,
        allow_headers=config.headers,
        allow_credentials=config.credentials,
        expose_headers=[HEADER],
    )


def _document(app: FastAPI, config: ServerConfig, open_routes: frozenset[str]) -> None:
    """Replace the framework's own description, which knows nothing of the envelope."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app, needs_key=bool(config.api_keys), open_routes=open_routes)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
