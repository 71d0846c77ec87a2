"""Which envelope an error is sent in: Anthropic's on its routes, OpenAI's on all others."""

from typing import Any

import msgspec
from starlette.types import Scope

from octavo_server.errors import ApiError

MESSAGES_PATH = "/v1/messages"
COUNT_TOKENS_PATH = "/v1/messages/count_tokens"
ANTHROPIC_PATHS = frozenset({MESSAGES_PATH, COUNT_TOKENS_PATH})

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def encoded_error(error: ApiError, scope: Scope) -> bytes:
    """The body of an error, as JSON, in the envelope of the route that was asked for, by whatever method."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return msgspec.json.encode(anthropic_error(error)) if path in ANTHROPIC_PATHS else error.encoded()


def anthropic_error(error: ApiError) -> dict[str, Any]:
    """Anthropic's envelope."""
    return {"type": "error", "error": {"type": _kind(error.status), "message": error.message}}


def _kind(status: int) -> str:
    return _KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
