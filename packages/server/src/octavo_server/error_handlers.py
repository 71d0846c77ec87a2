"""From exceptions to the envelope of the route."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from octavo.errors import EngineDeadError, InvalidRequestError, RequestFailedError, shown
from octavo_server.dialects import encoded_error
from octavo_server.errors import SERVER_ERROR, ApiError, engine_lost, internal

MAX_MESSAGE = 1000
"""Characters of a message; those that quote a value cut it long before."""

_LOCATIONS = frozenset({"body", "query", "path", "header"})


def as_api_error(error: Exception) -> ApiError:
    """The answer to a request in which something was raised; 500 without details for what nobody foresaw."""
    for kind, convert in _CONVERSIONS.items():
        if isinstance(error, kind):
            return convert(error)
    return internal()


def error_response(error: ApiError, scope: Scope) -> Response:
    """The envelope with its status and headers; `scope` is the request's."""
    return Response(encoded_error(error, scope), status_code=error.status, headers=error.headers, media_type="application/json")


def install_error_handlers(app: FastAPI) -> None:
    """Answer with the envelope where the framework would answer with its own errors; all others go up to `middleware.failures`."""

    async def answer(request: Request, error: Exception) -> Response:
        return error_response(as_api_error(error), request.scope)

    for kind in (HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)


def _invalid(error: RequestValidationError) -> ApiError:
    """The first thing that is wrong with a body, by the name of its field."""
    first: dict[str, Any] = error.errors()[0]
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is not JSON: {first['ctx']['error']} (character {first['loc'][-1]})")
    parts = [str(part) for part in first["loc"]]
    if parts and parts[0] in _LOCATIONS:
        parts = parts[1:]
    param = ".".join(parts) or None
    if first["type"] == "missing":
        return ApiError(400, f"{param or 'the body'} is missing: " + ("send it" if param else "send a JSON object"), param=param)
    given = "" if isinstance(first.get("input"), dict | list) else f" {shown(first.get('input'))}"
    return ApiError(400, f"{param or 'the body'}{given}: {first['msg']}", param=param)


def _bounded(message: str) -> str:
    """A message that stays one for people, whatever of a request it quotes."""
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}…"


def _http_error(error: HTTPException) -> ApiError:
    message = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        message = "there is no such route: GET /openapi.json lists them"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        message = f"this route takes another method: {(error.headers or {}).get('Allow', 'see /openapi.json')}"
    kind = SERVER_ERROR if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    return ApiError(error.status_code, message, kind=kind, headers=error.headers)


_CONVERSIONS: dict[type[Exception], Callable[[Any], ApiError]] = {
    ApiError: lambda error: error,
    InvalidRequestError: lambda error: ApiError(400, _bounded(str(error)), param=error.param, code=error.code),
    EngineDeadError: lambda error: engine_lost(str(error)),
    RequestFailedError: lambda error: ApiError(500, str(error), kind=SERVER_ERROR, code="request_failed"),
    RequestValidationError: _invalid,
    HTTPException: _http_error,
}
