"""Server-sent events: an answer that is sent while it grows.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from octavo_server.connections import close_behind_answer
from octavo_server.disconnects import unless_disconnected
from octavo_server.error_handlers import as_api_error
from octavo_server.errors import ApiError

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"

_log = logging.getLogger(__name__)


class EventWriter:
    """Writes events to a client, as fast as it reads. The head of the response goes out with the first of them.

    Args:
        send: of the request.

    Attributes:
        has_started: the response has begun, so that its status stands.
    """

    def __init__(self, send: Send) -> None:
        self.has_started = False
        self._send = send
        self._lock = asyncio.Lock()
        self._now = asyncio.get_running_loop().time
        self._last = self._now()

    async def write(self, data: bytes) -> None:
        """Send whole events in one piece. Returns when the connection takes more."""
        async with self._lock:
            if not self.has_started:
                await self._start()
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
            self._last = self._now()

    async def end(self, data: bytes) -> None:
        """Send the last events."""
        async with self._lock:
            if not self.has_started:
                await self._start()
            await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def keep_alive(self, interval_s: float) -> None:
        """Send a comment whenever nothing else went out for so long, until this is cancelled: proxies cut silent connections."""
        while True:
            idle_s = self._now() - self._last
            if idle_s >= interval_s:
                await self.write(KEEP_ALIVE)
            else:
                await asyncio.sleep(interval_s - idle_s)

    async def _start(self) -> None:
        self.has_started = True
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})


Produce: TypeAlias = Callable[[EventWriter], Awaitable[bytes]]
"""Writes the events of an answer and returns the last ones, which go out together with the end."""


@dataclass(frozen=True)
class EventForm:
    """How a dialect ends its streams.

    Attributes:
        error: the event of something that went wrong.
        end: what every stream ends with.
    """

    error: Callable[[ApiError], bytes]
    end: bytes


OPENAI_EVENTS = EventForm(error=lambda problem: b"data: " + problem.encoded() + b"\n\n", end=DONE)


class EventStream(Response):
    """A response made of events. What is raised before the first of them is the caller's to answer; later it becomes an event.

    Args:
        produce: writes the events; cancelled when the client goes away.
        keep_alive_s: longest silence; 0: none is broken.
        form: of the dialect.
    """

    media_type = "text/event-stream"

    def __init__(self, produce: Produce, *, keep_alive_s: float, form: EventForm = OPENAI_EVENTS) -> None:
        super().__init__()
        self._produce = produce
        self._form = form
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await unless_disconnected(receive, self._run(EventWriter(send), scope))
        except (ClientDisconnect, OSError):
            _log.debug("the client went away before its stream ended")

    async def _run(self, writer: EventWriter, scope: Scope) -> None:
        keeper = asyncio.create_task(writer.keep_alive(self._keep_alive_s)) if self._keep_alive_s else None
        try:
            last = await self._produce(writer)
        except (OSError, ClientDisconnect):
            raise
        except Exception as error:
            if not writer.has_started:
                raise
            problem = as_api_error(error)
            if problem.status == 500:
                _log.exception("a stream failed")
            # Whoever reads the connection alone sees that no more comes.
            close_behind_answer(scope)
            await writer.end(self._form.error(problem) + self._form.end)
        else:
            await writer.end(last + self._form.end)
        finally:
            if keeper is not None:
                keeper.cancel()
                await asyncio.gather(keeper, return_exceptions=True)
