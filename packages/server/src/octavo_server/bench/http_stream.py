"""One HTTP/1.1 response, read as it arrives.

A protocol and a parser in C, and nothing between them: what a general client does for every piece (a buffer, a future, a turn of a task)
costs more than reading the event itself, on a machine whose cores the server needs.
"""

import asyncio
import time
from collections.abc import Callable

import httptools

from octavo_server.bench.record import RequestError

MAX_ERROR_BYTES = 16_384


class ResponseStream(asyncio.Protocol):
    """Reads the response to the one request of a connection.

    Args:
        on_body: given each piece of the body of a response with status 200, and the moment (`time.perf_counter`) when it came.

    Attributes:
        status: of the response; 0 before it came.
        error_body: the beginning of the body of a response with another status.
        ended: None once the response is complete, else why it is not.
    """

    def __init__(self, on_body: Callable[[bytes, float], None]) -> None:
        self.status = 0
        self.error_body = b""
        self.ended: asyncio.Future[RequestError | None] = asyncio.get_running_loop().create_future()
        self._on_body = on_body
        self._parser = httptools.HttpResponseParser(self)
        self._ends_with_connection = True
        self._now = 0.0

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        self._now = time.perf_counter()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(RequestError("protocol", f"the answer is no HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """An end of the connection is that of the response only where nothing else says its length."""
        if exc is not None:
            self._end(RequestError("connection", str(exc) or type(exc).__name__))
        elif not self.status:
            self._end(RequestError("connection", "the server closed the connection without an answer"))
        elif self._ends_with_connection:
            self._end(None)
        else:
            self._end(RequestError("cut off", "the server closed the connection in the middle of the answer"))

    def on_header(self, name: bytes, _value: bytes) -> None:
        """Called by the parser."""
        if name.lower() in {b"content-length", b"transfer-encoding"}:
            self._ends_with_connection = False

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        if self.status == 200:
            self._on_body(body, self._now)
        elif len(self.error_body) < MAX_ERROR_BYTES:
            self.error_body += body

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._end(None)

    def _end(self, error: RequestError | None) -> None:
        if not self.ended.done():
            self.ended.set_result(error)
