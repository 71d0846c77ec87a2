"""Errors as clients get them: OpenAI's envelope, whatever went wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from octavo.errors import OctavoError, shown


class ApiError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: HTTP status.
        message: one line for people: the value, the limit, the way out.
        kind: OpenAI's `type`, such as `invalid_request_error`.
        param: field at fault.
        code: machine-readable kind, such as `context_length_exceeded`.
        headers: further ones of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """OpenAI's envelope."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def encoded(self) -> bytes:
        """The envelope as JSON."""
        return msgspec.json.encode(self.body())


SERVER_ERROR = "server_error"
RETRY_SOON_S = 1
RETRY_LATER_S = 5


def unavailable(message: str, *, retry_after_s: int = RETRY_LATER_S, code: str | None = None) -> ApiError:
    """503: the same request may succeed later."""
    return ApiError(503, message, kind="service_unavailable", code=code, headers={"Retry-After": str(retry_after_s)})


def starting() -> ApiError:
    """503 until the engine is ready."""
    return unavailable("the server is starting: the model is still being loaded", code="starting")


def draining() -> ApiError:
    """503 once the server was told to end."""
    return unavailable("the server is shutting down and takes no new requests", code="shutting_down")


def cut_off() -> ApiError:
    """503 for what was under way when the time of a server that ends was over."""
    return unavailable(
        "the server is shutting down and has ended this request: send it again to another one, or later", code="shutting_down"
    )


def engine_lost(reason: str) -> ApiError:
    """503 without an engine."""
    return unavailable(f"the engine is lost: {reason}", code="engine_dead")


def internal() -> ApiError:
    """500 without a word of what is inside."""
    return ApiError(500, "the server failed on this request; its log says why", kind=SERVER_ERROR, code="internal_error")


def model_not_found(given: str, names: Sequence[str]) -> ApiError:
    """404 for a model that is not served."""
    return ApiError(404, f"model {shown(given)} is not served here: there is {', '.join(names)}", param="model", code="model_not_found")


class ServeError(OctavoError, RuntimeError):
    """The server cannot go on."""
