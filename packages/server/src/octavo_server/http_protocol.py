"""HTTP on one connection: uvicorn's, with bounds on what a client that need not even have a key can make the server do."""

import logging
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from octavo_server.connections import CLOSE, Room
from octavo_server.dialects import encoded_error
from octavo_server.errors import RETRY_SOON_S, ApiError, unavailable

MAX_HEAD_BYTES = 64 << 10
"""A request's line and headers, and what may lie between two parts of its body."""

HEAD_S = 30.0
"""Seconds from the connection, or from the first byte, to the end of a request's head."""

BODY_S = 60.0
"""Seconds without a byte of a body that is not whole."""

MAX_PIPELINED = 32
"""Requests that may wait for the answer to an earlier one of their connection."""

_FAREWELL_S = 2.0
"""Seconds in which a client that was refused may read why; a connection closed on bytes that were not read would be reset."""

_log = logging.getLogger(__name__)


class _Phase(Enum):
    HEAD = auto()
    BODY = auto()
    ANSWERING = auto()
    IDLE = auto()
    REFUSED = auto()


class Protocol(HttpToolsProtocol):
    """Bounds heads in bytes and time, and pauses in bodies; answers what is no request with the envelope that all errors have.

    Args:
        room: of the process, for connections.
    """

    def __init__(self, *args: Any, room: Room, **more: Any) -> None:
        super().__init__(*args, **more)
        self._room = room
        self._phase = _Phase.HEAD
        self._deadline: float | None = None
        self._has_heard = False
        self._num_unread = 0
        self._answering: Any = None

    def connection_made(self, transport: Any) -> None:
        """Take a connection, in the place of one that is idle where there are too many, or refuse it."""
        super().connection_made(transport)
        if len(self.connections) > self._room.most and not self._room.make():
            message = f"there are {self._room.most:,} connections already: come back later, or raise --max-connections"
            self._refuse(unavailable(message, retry_after_s=RETRY_SOON_S, code="too_many_connections"))
            self.transport.close()
        else:
            self._room.note_idle(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it, and end the request that is being answered."""
        self._room.note_busy(self.transport)
        self._end_request()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, no further than a head may go at a time."""
        if not self._takes_data():
            return
        self._has_heard = True
        self._room.note_busy(self.transport)
        if self._phase is _Phase.IDLE:
            self._enter(_Phase.HEAD)
        while data and self._takes_data():
            length = MAX_HEAD_BYTES - self._num_unread
            piece, data = (data, b"") if len(data) <= length else (data[:length], data[length:])
            self._num_unread += len(piece)
            super().data_received(piece)
            if self._num_unread >= MAX_HEAD_BYTES:
                self._refuse(ApiError(431, f"the head of the request is longer than {MAX_HEAD_BYTES:,} bytes: send fewer headers"))
            elif len(self.pipeline) > MAX_PIPELINED:
                # An earlier answer is under way, so nothing can be said.
                self._hang_up()

    def look(self, now_s: float) -> None:
        """Hang up on a client that takes too long; called now and then, with a time that stands still while this process does."""
        is_patient = self.flow.read_paused or (self._phase is _Phase.BODY and self._has_heard)
        if self._deadline is None or is_patient:
            self._has_heard = False
            limits = {
                _Phase.HEAD: HEAD_S,
                _Phase.BODY: BODY_S,
                _Phase.IDLE: self.timeout_keep_alive,
                _Phase.REFUSED: _FAREWELL_S,
            }
            self._deadline = now_s + limits[self._phase] if self._phase in limits else None
        elif now_s < self._deadline:
            return
        elif self._phase in {_Phase.IDLE, _Phase.REFUSED} or (self._phase is _Phase.HEAD and not self._num_unread):
            self.transport.close()
        elif self._phase is _Phase.HEAD:
            self._refuse(ApiError(408, f"the head of the request has not come within {HEAD_S:g} s: send it at once"))
        else:
            self._refuse(ApiError(408, f"nothing of the body has come for {BODY_S:g} s: send it whole"))

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(ApiError(400, msg))

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self.scope["extensions"] = {CLOSE: {"close": self._close_behind_answer}}
        if self._phase is not _Phase.HEAD:
            self._enter(_Phase.HEAD)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        super().on_headers_complete()
        # `cycle` is the request that came last; where a client sends several at once, that one waits in the pipeline.
        if not self.pipeline:
            self._answering = self.cycle
        self._num_unread = 0
        self._enter(_Phase.BODY)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._num_unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._num_unread = 0
        self._enter(_Phase.ANSWERING)
        super().on_message_complete()
        if self.cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        """The answer is whole."""
        is_last = not self.pipeline
        if not is_last:
            self._answering = self.pipeline[-1][0]
        super().on_response_complete()
        if is_last and self._phase is _Phase.ANSWERING:
            self._rest()

    def _takes_data(self) -> bool:
        return self._phase is not _Phase.REFUSED and not self.transport.is_closing()

    def _rest(self) -> None:
        self._enter(_Phase.IDLE)
        self._room.note_idle(self.transport)

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._deadline = None

    def _close_behind_answer(self) -> None:
        self.cycle.keep_alive = False

    def _refuse(self, problem: ApiError) -> None:
        """Say what is wrong, unless that would go into another answer, and take nothing more; `look` hangs up."""
        can_say = self._can_say()
        _log.debug("%s is refused: %d, %s", self.client or "a client", problem.status, problem.message)
        body = encoded_error(problem, dict(self.scope)) if self._phase is _Phase.BODY else problem.encoded()
        self._enter(_Phase.REFUSED)
        self._unset_keepalive_if_required()
        if not can_say:
            self._hang_up()
            return
        self._end_request()
        self.transport.write(_response(problem, body))
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _hang_up(self) -> None:
        self._end_request()
        self.transport.close()

    def _end_request(self) -> None:
        """Tell the application that nobody waits for its answer any more: it ends the request, and nothing of it is written."""
        cycle = self._answering
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def _can_say(self) -> bool:
        """Whether no other answer is under way on this connection."""
        if self.pipeline:
            return False
        if self._phase is _Phase.BODY:
            return not self.cycle.response_started
        return self.cycle is None or self.cycle.response_complete


def _response(problem: ApiError, body: bytes) -> bytes:
    phrase = HTTPStatus(problem.status).phrase
    headers = {"content-type": "application/json", "content-length": len(body), "connection": "close", **problem.headers}
    head = [f"HTTP/1.1 {problem.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*head, "", ""]).encode() + body
