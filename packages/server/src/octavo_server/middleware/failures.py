"""Whatever goes wrong below becomes one answer in the envelope of the route."""

import logging

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octavo_server.error_handlers import as_api_error, error_response

_log = logging.getLogger(__name__)


class Failures:
    """Answers with an error where the application raised before the first byte of its answer.

    Behind the first byte nothing can be said any more: the exception goes on, and the connection is closed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def send_noted(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except ClientDisconnect:
            _log.debug("the client went away before its request was whole")
        except Exception as error:
            if has_started:
                raise
            problem = as_api_error(error)
            if problem.status == 500:
                _log.exception("%s %s failed", scope["method"], ascii(scope["path"])[1:-1])
            await error_response(problem, scope)(scope, receive, send)
