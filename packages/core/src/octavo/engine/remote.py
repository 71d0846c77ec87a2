"""A client's end of the connection to an engine in another process. Lives in an event loop, without a thread of its own."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

import zmq
from zmq.utils.monitor import parse_monitor_message

from octavo.engine.client_messages import (
    BEAT_S,
    Abort,
    Answer,
    Ask,
    BadMessageError,
    ClientBeat,
    Dead,
    EngineBeat,
    EngineMessage,
    Finish,
    Goodbye,
    Hello,
    Outputs,
    Question,
    Ready,
    StartFailed,
    Stranger,
    decode_engine_message,
    encode,
    pack_add,
)
from octavo.engine.complaints import Complaints
from octavo.engine.folder import socket_path
from octavo.engine.link import EngineLink, OnDeath, OnOutputs
from octavo.engine.load import EngineLoad, LoadTracker
from octavo.engine.messages import EngineRequest
from octavo.engine.sockets import connect, receive
from octavo.errors import EngineDeadError, InvalidRequestError
from octavo.metrics.stats import EngineStats

SILENT_BEATS = 8
"""An engine that is silent for so many beats is dead (4 s)."""

_BURST = 64

_log = logging.getLogger(__name__)


class RemoteEngine(EngineLink):
    """Made in the running event loop, which it serves alone.

    An engine that is lost is looked for again: when one answers at the same address, the old one or a new one, requests are taken
    again. Those that were under way are lost.

    Args:
        folder: where the engine's socket lies; the engine need not be there yet.
        client: number of this client; a later client of the same number replaces it.
        engine: number of the engine.
        silent_beats: an engine that is silent for so many beats is dead.

    Raises `ConfigurationError` where the name of the folder is too long for a socket.
    """

    def __init__(self, folder: Path, client: int = 0, *, engine: int = 0, silent_beats: int = SILENT_BEATS) -> None:
        path = socket_path(folder, engine)
        self._loop = asyncio.get_running_loop()
        self._client = client
        self._silent_beats = silent_beats
        self._death: EngineDeadError | None = EngineDeadError("the engine is not ready yet")
        self._ready: asyncio.Future[Ready] = self._loop.create_future()
        # Nobody may be waiting for it.
        self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._on_outputs: OnOutputs = lambda _: None
        self._on_death: OnDeath = lambda _: None
        self._is_closed = False
        self._hello_is_due = False
        self._is_connected = False
        self._silence = 0
        self._instance = ""
        self._process_id: int | None = None
        self._is_rejoining = False
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count()
        self._complaints = Complaints(_log, "dropped a message from the engine: %s")
        self._renew_session()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket, self._monitor = connect(self._context, path)
        self._loop.add_reader(self._socket.fileno(), self._drain)
        self._loop.add_reader(self._monitor.fileno(), self._drain_monitor)
        self._timer = self._loop.call_later(BEAT_S, self._tick)
        # Both descriptors tell of changes only: what is there already has to be looked for.
        self._loop.call_soon(self._drain_monitor)

    def listen(self, on_outputs: OnOutputs, on_death: OnDeath) -> Self:
        """Say who hears what comes."""
        self._on_outputs, self._on_death = on_outputs, on_death
        return self

    async def ready(self, *, check: Callable[[], object] | None = None) -> Ready:
        """Wait for the engine.

        Args:
            check: called now and then while there is no word of the engine; raises where there is nothing to wait for.

        Raises:
            ConfigurationError, CheckpointError, PluginError: as the engine failed with.
            EngineDeadError: its start failed in another way.
        """
        while True:
            done, _ = await asyncio.wait((self._ready,), timeout=BEAT_S)
            if done:
                return self._ready.result()
            if check is not None:
                check()

    @property
    def death(self) -> EngineDeadError | None:
        return self._death

    @property
    def process_id(self) -> int | None:
        return self._process_id

    @property
    def is_rejoining(self) -> bool:
        return self._is_rejoining

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            raise InvalidRequestError("the connection to the engine belongs to another event loop: connect in this one")

    def add(self, requests: Sequence[EngineRequest]) -> None:
        message = pack_add(requests)
        self._check_alive()
        self._tracker.sent(requests)
        self._send(message)

    def abort(self, request_ids: Iterable[str]) -> None:
        if self._death is None:
            self._send(encode(Abort(request_ids=list(request_ids))))

    def finish(self, request_id: str, num_output_tokens: int) -> None:
        if self._death is None:
            self._send(encode(Finish(request_id=request_id, num_output_tokens=num_output_tokens)))

    def load(self) -> EngineLoad:
        return self._tracker.load()

    def reset_prefix_cache(self) -> Awaitable[bool]:
        return self._ask("reset_prefix_cache")

    def stats(self) -> Awaitable[EngineStats]:
        return self._ask("stats")

    def ping(self) -> Awaitable[None]:
        return self._ask("ping")

    async def close(self) -> None:
        """Take leave of the engine, which goes on."""
        if self._is_closed:
            return
        self._is_closed = True
        self._send(encode(Goodbye()))
        self._lose("the connection to the engine is closed: make a new one")
        self._death = EngineDeadError("the connection to the engine is closed: make a new one")
        if not self._ready.done():
            self._ready.cancel()
        self._timer.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_reader(self._monitor.fileno())
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(linger=int(BEAT_S * 1000))
        await asyncio.to_thread(self._context.term)

    def _check_alive(self) -> None:
        if self._death is not None:
            raise EngineDeadError(str(self._death)) from self._death

    def _ask(self, question: Question) -> "asyncio.Future[Any]":
        self._check_alive()
        number = next(self._numbers)
        answer = self._questions[number] = self._loop.create_future()
        answer.add_done_callback(lambda _: self._questions.pop(number, None))
        self._send(encode(Ask(number=number, question=question)))
        return answer

    def _send(self, message: bytes) -> None:
        """Never waits: the socket takes any number of messages."""
        self._socket.send(message, zmq.NOBLOCK)
        # Sending may use up the sign that something came.
        if int(self._socket.get(zmq.EVENTS)) & zmq.POLLIN:
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        """Take what has come, until there is nothing more: the descriptor tells of changes only."""
        for _ in range(_BURST):
            if self._is_closed:
                return
            try:
                frames = receive(self._socket)
            except zmq.Again:
                return
            try:
                self._hear(decode_engine_message(b"".join(frames)))
            except BadMessageError as error:
                self._complaints.add(error)
            except BaseException:
                self._loop.call_soon(self._drain)
                raise
        self._loop.call_soon(self._drain)

    def _drain_monitor(self) -> None:
        """Take note of connections and broken connections."""
        while not self._is_closed:
            try:
                event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))["event"]
            except zmq.Again:
                return
            self._is_connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if self._is_connected:
                self._say_hello()
            else:
                # What the engine said before it went comes first.
                self._drain()
                self._is_rejoining = False
                self._lose("the engine's process has gone")

    def _hear(self, message: EngineMessage) -> None:
        was_silent, self._silence = self._silence >= self._silent_beats, 0
        if was_silent:
            self._say_hello()
        match message:
            case Outputs(outputs=outputs, report=report):
                if self._death is None:
                    self._tracker.reported(report)
                    self._on_outputs(outputs)
            case EngineBeat(report=report):
                if self._death is None:
                    self._tracker.reported(report)
            case Answer():
                self._take_answer(message)
            case Ready():
                self._take_up(message)
            case StartFailed(failure=failure):
                self._fail(failure.error("the start of the engine"))
            case Stranger():
                self._lose("the engine has ended this session: it heard nothing for too long, or another client of this number")
                # Not at once: two clients of one number would replace each other without a pause.
                self._hello_is_due = self._is_rejoining = True
            case Dead(reason=reason):
                self._is_rejoining = False
                self._lose(reason)

    def _take_answer(self, answer: Answer) -> None:
        future = self._questions.get(answer.number)
        if future is None or future.done():
            return
        if answer.failure is None:
            future.set_result(answer.value)
        else:
            future.set_exception(answer.failure.error("the engine"))

    def _take_up(self, ready: Ready) -> None:
        """The session stands, if it is this one."""
        if ready.session != self._session or self._is_closed:
            return
        if self._instance and self._instance != ready.instance:
            _log.warning("the engine was started anew")
        self._instance = ready.instance
        self._process_id = ready.process
        self._is_rejoining = False
        self._tracker.reported(ready.report)
        self._death = None
        if not self._ready.done():
            self._ready.set_result(ready)

    def _fail(self, error: Exception) -> None:
        if self._ready.done():
            _log.error("%s", error)
        else:
            self._ready.set_exception(error)

    def _lose(self, reason: str) -> None:
        """All that was under way is lost, and a new session has to be opened. Nothing to do where none stood."""
        if self._death is not None:
            return
        self._death = EngineDeadError(reason)
        self._renew_session()
        for answer in list(self._questions.values()):
            if not answer.done():
                answer.set_exception(self._death)
        if not self._is_closed:
            _log.error("the engine is lost: %s", reason)
        self._on_death(self._death)

    def _renew_session(self) -> None:
        self._session = secrets.token_hex(8)
        self._tracker = LoadTracker()

    def _say_hello(self) -> None:
        self._send(encode(Hello(client=self._client, session=self._session)))

    def _tick(self) -> None:
        self._timer = self._loop.call_later(BEAT_S, self._tick)
        self._drain_monitor()
        self._drain()
        self._silence += 1
        if self._silence == self._silent_beats:
            self._is_rejoining = False
            self._lose(f"the engine has been silent for {self._silent_beats * BEAT_S:g} s")
        if not self._is_connected:
            return
        if self._hello_is_due:
            self._hello_is_due = False
            self._say_hello()
        elif self._silence < self._silent_beats:
            self._send(encode(ClientBeat()))
