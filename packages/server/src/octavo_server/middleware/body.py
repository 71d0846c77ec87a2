"""Limits on bodies, before anything looks into them: how long, and how deeply nested."""

import asyncio

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octavo_server.errors import ApiError
from octavo_server.middleware.json_depth import is_deeper_than

_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_LONG_BODY = 1 << 20
"""Bytes from here on are looked at in a thread, which numpy lets run beside the streams."""


class BodyLimits:
    """Reads a whole body and hands it on, or refuses it.

    Args:
        max_bytes: 413 as soon as it is known that the body is longer, with or without a `Content-Length`.
        max_depth: 400 where arrays and objects lie deeper within each other.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, max_depth: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_depth = max_depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _METHODS_WITH_BODY:
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._max_bytes:
            raise self._too_large()
        body = await self._read(receive)
        is_long = len(body) >= _LONG_BODY
        if await asyncio.to_thread(is_deeper_than, body, self._max_depth) if is_long else is_deeper_than(body, self._max_depth):
            raise ApiError(400, f"the body nests arrays and objects more than {self._max_depth} deep: send a flatter one")
        await self._app(scope, _replay(body, receive), send)

    async def _read(self, receive: Receive) -> bytes:
        """The whole body. Raises `ApiError` 413, or `ClientDisconnect`."""
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > self._max_bytes:
                raise self._too_large()
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _too_large(self) -> ApiError:
        limit = f"{self._max_bytes:,} bytes"
        return ApiError(413, f"the body is longer than {limit}: send less, or start the server with a higher --max-request-bytes")


def _replay(body: bytes, receive: Receive) -> Receive:
    """First the body, then what comes behind it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
