"""The engine's end of the connection to its clients: one thread waits for messages while another one steps the engine."""

import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import zmq

from octavo.config.engine import Decision
from octavo.engine.background import BackgroundEngine
from octavo.engine.client import InProcessClient
from octavo.engine.client_messages import (
    BEAT_S,
    Abort,
    Add,
    Answer,
    Ask,
    BadMessageError,
    ClientMessage,
    Dead,
    EngineBeat,
    EngineMessage,
    Finish,
    Goodbye,
    Hello,
    Ready,
    StartFailed,
    Stranger,
    decode_client_message,
    encode,
    pack_outputs,
    unpack_add,
)
from octavo.engine.complaints import Complaints
from octavo.engine.gate import check_requests
from octavo.engine.load import LoadReports
from octavo.engine.mailbox import Mailbox
from octavo.engine.messages import EngineOutput, EngineRequest, ModelInfo
from octavo.engine.sessions import Session, Sessions
from octavo.engine.sockets import receive
from octavo.engine.wire import Failure
from octavo.errors import EngineDeadError, InvalidRequestError

SILENT_BEATS = 20
"""A client that is silent for so many beats is gone (10 s)."""

_BURST = 256
_RETRY_MS = 5
_FAREWELL_S = 0.5

_log = logging.getLogger(__name__)


class EngineServer:
    """Answers clients from the moment it stands, runs their requests once an engine is there, and says when it is lost.

    All methods but `stop` belong to the thread that calls `run`. What clients send is checked; what is wrong is dropped.

    Args:
        socket: that clients connect to, from `sockets.listen`.
        engine: number of the engine.
        silent_beats: a client that is silent for so many beats is gone.

    Attributes:
        sessions: the clients.
    """

    def __init__(self, socket: "zmq.Socket[bytes]", *, engine: int = 0, silent_beats: int = SILENT_BEATS) -> None:
        self.sessions = Sessions()
        self._socket = socket
        self._engine = engine
        self._instance = secrets.token_hex(8)
        self._silent_beats = silent_beats
        self._mailbox = Mailbox()
        self._complaints = Complaints(_log, "dropped a message to the engine: %s")
        self._background: BackgroundEngine | None = None
        self._info: ModelInfo | None = None
        self._decisions: tuple[Decision, ...] = ()
        self._failure: Failure | None = None
        self._exit_code = 0
        self._ends_at: float | None = None

    @property
    def is_loading(self) -> bool:
        """Whether the engine has neither come nor failed."""
        return self._background is None and self._failure is None

    def run(self, load: Callable[[], tuple[InProcessClient, ModelInfo, tuple[Decision, ...]]]) -> int:
        """Serve until the engine is stopped or lost; the exit status of the process. An engine that still loads is left behind.

        Args:
            load: brings the engine; called in another thread.
        """
        threading.Thread(target=self._load, args=(load,), name="octavo-load", daemon=True).start()
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._mailbox.fileno(), zmq.POLLIN)
        next_beat = time.monotonic() + BEAT_S
        while self._ends_at is None or time.monotonic() < self._ends_at:
            poller.poll(self._patience_ms(next_beat))
            self._receive()
            self._mailbox.deliver()
            self._flush()
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + BEAT_S
                self._beat()
        if self._background is not None:
            self._background.close()
        return self._exit_code

    def stop(self) -> None:
        """End without haste, but do not wait for requests. Any thread and signal handlers may call it."""
        self._mailbox.post(self._stop)

    def _load(self, load: Callable[[], tuple[InProcessClient, ModelInfo, tuple[Decision, ...]]]) -> None:
        try:
            loaded = load()
        except BaseException as error:  # noqa: BLE001 - it is reported to whoever waits for the engine
            _log.debug("the engine cannot be started", exc_info=error)
            self._mailbox.post(partial(self._fail, Failure.of(error)))
        else:
            self._mailbox.post(partial(self._take_up, *loaded))

    def _take_up(self, client: InProcessClient, info: ModelInfo, decisions: tuple[Decision, ...]) -> None:
        """The engine is there."""
        self._info, self._decisions = info, decisions
        self._background = BackgroundEngine(
            client,
            on_outputs=lambda outputs: self._mailbox.post(partial(self._hand_out, outputs)),
            on_death=lambda error: self._mailbox.post(partial(self._die, error)),
        )
        for session in self.sessions:
            self._greet(session)

    def _fail(self, failure: Failure) -> None:
        """There will be no engine. Those who are about to ask for it are told before the process ends."""
        self._failure = failure
        for session in self.sessions:
            self._greet(session)
        self._end(1)

    def _die(self, error: EngineDeadError) -> None:
        self._tell_all(Dead(reason=str(error)))
        self._end(1)

    def _stop(self) -> None:
        if self._ends_at is not None:
            self._ends_at = time.monotonic()
            return
        self._tell_all(Dead(reason="the engine is shutting down"))
        self._end(self._exit_code)

    def _end(self, exit_code: int) -> None:
        """Not at once: a client whose connection breaks may drop what it has not read yet."""
        self._exit_code = exit_code
        self._ends_at = time.monotonic() + _FAREWELL_S

    def _patience_ms(self, next_beat: float) -> int:
        if any(session.has_mail for session in self.sessions):
            return _RETRY_MS
        until = next_beat if self._ends_at is None else min(next_beat, self._ends_at)
        return max(0, math.ceil((until - time.monotonic()) * 1000))

    def _receive(self) -> None:
        for _ in range(_BURST):
            try:
                peer, *frames = receive(self._socket)
            except zmq.Again:
                return
            try:
                if len(frames) != 1:
                    raise BadMessageError(f"{len(frames)} frames, but a message is one")
                self._hear(peer, decode_client_message(frames[0]))
            except BadMessageError as error:
                self._complaints.add(error)

    def _hear(self, peer: bytes, message: ClientMessage) -> None:
        if isinstance(message, Hello):
            self._open(peer, message)
            return
        session = self.sessions.of_peer(peer)
        if session is None:
            self._send_to_stranger(peer)
            return
        session.silence = 0
        if isinstance(message, Goodbye):
            self._close(session)
        elif self._background is not None:
            self._carry_out(session, message, self._background)

    def _carry_out(self, session: Session, message: ClientMessage, background: BackgroundEngine) -> None:
        match message:
            case Add():
                self._add(session, unpack_add(message, client=session.number), background)
            case Abort(request_ids=request_ids):
                own = [request_id for request_id in dict.fromkeys(request_ids) if self.sessions.owner(request_id) is session]
                for request_id in own:
                    self.sessions.disown(request_id)
                background.abort(own)
            case Finish(request_id=request_id, num_output_tokens=num_output_tokens):
                if self.sessions.owner(request_id) is session:
                    background.finish(request_id, num_output_tokens)
            case Ask():
                questions: dict[str, Callable[[], Future[Any]]] = {
                    "reset_prefix_cache": background.reset_prefix_cache,
                    "stats": background.stats,
                    "ping": background.ping,
                }
                answer = questions[message.question]()
                answer.add_done_callback(lambda done: self._mailbox.post(partial(self._answer, session, message.number, done)))

    def _add(self, session: Session, requests: list[EngineRequest], background: BackgroundEngine) -> None:
        assert self._info is not None
        self.sessions.own(session, requests)
        try:
            check_requests(requests, self._info)
        except InvalidRequestError as error:
            background.refuse(requests, str(error))
        else:
            background.add(requests)

    def _hand_out(self, outputs: list[EngineOutput]) -> None:
        """Send what a step brought, in one message a client."""
        batches: dict[Session, list[EngineOutput]] = {}
        for output in outputs:
            session = self.sessions.owner(output.request_id)
            if session is None:
                continue
            if output.finish_reason is not None:
                self.sessions.disown(output.request_id)
            batches.setdefault(session, []).append(output)
        reports = self._reports()
        for session, batch in batches.items():
            for message in pack_outputs(batch, reports.of(session.number)):
                self._send(session, message)

    def _answer(self, session: Session, number: int, done: "Future[Any]") -> None:
        if self.sessions.of_peer(session.peer) is not session:
            return
        error = done.exception()
        answer = Answer(number=number, value=done.result()) if error is None else Answer(number=number, failure=Failure.of(error))
        self._send(session, encode(answer))

    def _open(self, peer: bytes, hello: Hello) -> None:
        known = self.sessions.of_peer(peer)
        if known is None or known.hello != hello:
            for old in {known, self.sessions.of_client(hello.client)} - {None}:
                assert old is not None
                self._close(old)
            known = self.sessions.open(peer, hello)
        known.silence = 0
        self._greet(known)

    def _greet(self, session: Session) -> None:
        """Answer a hello, once there is something to say."""
        if self._failure is not None:
            self._send(session, encode(StartFailed(failure=self._failure)))
        elif self._info is not None:
            ready = Ready(
                session=session.hello.session,
                instance=self._instance,
                engine=self._engine,
                process=os.getpid(),
                info=self._info,
                decisions=self._decisions,
                report=self._reports().of(session.number),
            )
            self._send(session, encode(ready))

    def _close(self, session: Session) -> None:
        """End a session and its requests."""
        request_ids = self.sessions.close(session)
        if self._background is not None:
            self._background.abort(request_ids)
            self._background.forget_client(session.number)

    def _beat(self) -> None:
        reports = self._reports()
        for session in self.sessions:
            session.silence += 1
            if session.silence > self._silent_beats:
                _log.warning("%s is silent: its %d requests are aborted", session, len(session.request_ids))
                self._close(session)
            else:
                self._send(session, encode(EngineBeat(report=reports.of(session.number))))

    def _reports(self) -> LoadReports:
        return LoadReports() if self._background is None else self._background.reports

    def _tell_all(self, message: EngineMessage) -> None:
        for session in self.sessions:
            self._send(session, encode(message))

    def _send(self, session: Session, message: bytes) -> None:
        if not session.send(self._socket, message):
            self._give_up(session)

    def _flush(self) -> None:
        for session in self.sessions:
            if session.has_mail and not session.flush(self._socket):
                self._give_up(session)

    def _give_up(self, session: Session) -> None:
        _log.warning("%s is gone or does not read: its %d requests are aborted", session, len(session.request_ids))
        self._close(session)

    def _send_to_stranger(self, peer: bytes) -> None:
        try:
            self._socket.send_multipart((peer, encode(Stranger())), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            self._complaints.add(f"from a stranger that takes no answer ({error})")
