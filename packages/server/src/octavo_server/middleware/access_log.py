"""A line of the log for every request: what was asked, how it was answered, how long it took. Never headers, bodies or queries."""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octavo_server.middleware.auth import TENANT

_log = logging.getLogger(__name__)


class AccessLog:
    """Logs requests when their answers have gone out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        start = time.perf_counter()

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        finally:
            client = scope["client"][0] if scope.get("client") else "-"
            path = ascii(scope["path"])[1:-1]
            elapsed_ms = (time.perf_counter() - start) * 1000
            _log.info("%s %s %s %s %.1f ms %s", client, scope["method"], path, status or "-", elapsed_ms, scope.get(TENANT) or "-")
