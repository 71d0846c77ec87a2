"""A name for every request: the client's, or a new one. It is in the answer's header and in every line of the log."""

import re
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octavo_server.logs import REQUEST_ID
from octavo_server.state import InFlight

HEADER = "x-request-id"
_ALLOWED = re.compile(r"[A-Za-z0-9_.:/+=@-]{1,128}")


class RequestIds:
    """Names requests, and counts those that are being answered.

    A client's name may have up to 128 letters, digits and `_.:/+=@-`; another is replaced, as it goes into headers and logs.
    """

    def __init__(self, app: ASGIApp, in_flight: InFlight) -> None:
        self._app = app
        self._in_flight = in_flight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if _ALLOWED.fullmatch(given) else uuid4().hex
        header = (HEADER.encode(), request_id.encode())

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], header]
            await send(message)

        token = REQUEST_ID.set(request_id)
        self._in_flight.enter()
        try:
            await self._app(scope, receive, send_named)
        finally:
            self._in_flight.leave()
            REQUEST_ID.reset(token)
