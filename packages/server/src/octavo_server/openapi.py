"""The description of the API at `/openapi.json`: what the routes declare, and the envelopes of their errors."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from octavo_server.dialects import ANTHROPIC_PATHS

_ERROR = "ErrorResponse"
_ANTHROPIC_ERROR = "AnthropicErrorResponse"
_SCHEMAS: dict[str, Any] = {
    _ERROR: {
        "title": _ERROR,
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": {"type": "string", "description": "what is wrong, and the way out"},
                    "type": {"type": "string"},
                    "param": {"type": ["string", "null"], "description": "field at fault"},
                    "code": {"type": ["string", "null"], "description": "machine-readable kind"},
                },
            }
        },
    },
    _ANTHROPIC_ERROR: {
        "title": _ANTHROPIC_ERROR,
        "type": "object",
        "required": ["type", "error"],
        "properties": {
            "type": {"const": "error"},
            "error": {
                "type": "object",
                "required": ["type", "message"],
                "properties": {
                    "type": {"type": "string"},
                    "message": {"type": "string", "description": "what is wrong, and the way out"},
                },
            },
        },
    },
}
_ERRORS = {
    "4XX": "The request cannot be answered as it is",
    "500": "The server failed on this request",
    "503": "Not now: starting, shutting down, without an engine, or with a full queue",
}
_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


def describe(app: FastAPI, *, needs_key: bool, open_routes: frozenset[str]) -> dict[str, Any]:
    """The OpenAPI document of an application.

    Args:
        app: with all of its routes.
        needs_key: whether routes need an API key.
        open_routes: declared paths that never do.
    """
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(_SCHEMAS)
    if needs_key:
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "x-api-key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
        }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method in _METHODS:
                _describe_errors(operation["responses"], _ANTHROPIC_ERROR if path in ANTHROPIC_PATHS else _ERROR)
                if needs_key and path not in open_routes:
                    operation["security"] = [{"bearer": []}, {"x-api-key": []}]
    return document


def _describe_errors(responses: dict[str, Any], name: str) -> None:
    responses.pop("422", None)
    schema = {"$ref": f"#/components/schemas/{name}"}
    for status, text in _ERRORS.items():
        responses[status] = {"description": text, "content": {"application/json": {"schema": schema}}}
