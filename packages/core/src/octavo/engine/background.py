"""An engine in a thread of its own."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from octavo.engine.client import InProcessClient
from octavo.engine.load import LoadReports
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import EngineDeadError, InvalidRequestError, described
from octavo.metrics.stats import EngineStats
from octavo.types import FinishReason

T = TypeVar("T")

_CHECK_EVERY_S = 0.5

_log = logging.getLogger(__name__)


class BackgroundEngine:
    """Steps an engine as long as there is work, and sleeps where there is none.

    Every method may be called from any thread. None but `close` waits: what they ask for is carried out in order between two steps,
    and what has an answer returns a future.

    Args:
        client: of the engine; nobody else may use it any more.
        on_outputs: gets what a step brought, in the engine's thread, once a step; must not wait.
        on_death: told once, in the engine's thread, that the engine cannot go on.

    Attributes:
        reports: how much the engine had to do behind the last step.
    """

    def __init__(
        self,
        client: InProcessClient,
        *,
        on_outputs: Callable[[list[EngineOutput]], None],
        on_death: Callable[[EngineDeadError], None],
    ) -> None:
        self._client = client
        self._on_outputs = on_outputs
        self._on_death = on_death
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._outputs: list[EngineOutput] = []
        self._received: dict[int, int] = {}
        self.reports = LoadReports(report=client.load(), received={})
        self._is_dead = False
        self._stops = False
        self._closed = False
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="octavo-engine", daemon=True)
        self._thread.start()

    def add(self, requests: Sequence[EngineRequest]) -> None:
        """Queue requests, all or none; what the engine refuses ends with an output that says why. Raises `EngineDeadError` when closed."""
        self._command(partial(self._add, requests))

    def refuse(self, requests: Sequence[EngineRequest], reason: str) -> None:
        """End requests as `add` ends those that the engine refuses."""
        self._command(partial(self._count_and_refuse, requests, reason), tolerate_closed=True)

    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests without another output; unknown ids and a closed engine are fine."""
        self._command(partial(self._client.abort, list(request_ids)), tolerate_closed=True)

    def forget_client(self, client: int) -> None:
        """Count a client's requests from 0 again, once what it asked for before is carried out."""
        self._command(partial(self._forget_client, client), tolerate_closed=True)

    def finish(self, request_id: str, num_output_tokens: int) -> None:
        """End a request whose text met a stop string; its last output comes as all others do, none for unknown ids."""
        self._command(partial(self._finish, request_id, num_output_tokens), tolerate_closed=True)

    def reset_prefix_cache(self) -> "Future[bool]":
        """Forget every cached prefix; False where requests hold blocks."""
        return self._ask(self._client.reset_prefix_cache)

    def stats(self) -> "Future[EngineStats]":
        """Counters and load between two steps."""
        return self._ask(self._client.stats)

    def ping(self) -> "Future[None]":
        """Answered between two steps. Raises `EngineDeadError` where the engine is dead."""
        return self._ask(self._check_alive)

    def close(self) -> None:
        """Wait for the step under way and release the engine; calling it twice is fine."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._commands.put(self._stop)
        self._thread.join()

    def _command(self, command: Callable[[], None], *, tolerate_closed: bool = False) -> None:
        with self._closing:
            if not self._closed:
                self._commands.put(command)
            elif not tolerate_closed:
                raise EngineDeadError("the engine is closed: start a new one")

    def _ask(self, question: Callable[[], T]) -> "Future[T]":
        answer: Future[T] = Future()
        self._command(partial(_answer, answer, question))
        return answer

    def _run(self) -> None:
        """Whatever is raised on the way, go on to answer questions until told to stop, and then give back the engine."""
        try:
            while not self._stops:
                try:
                    self._turn()
                except BaseException as error:  # noqa: BLE001 - nothing above this thread could hear of it
                    self._die(error)
        finally:
            self._client.close()

    def _turn(self) -> None:
        """Carry out what was asked for, waiting for it where there is nothing else to do, and take one step."""
        if self._is_dead or not self._client.has_work():
            self._wait_for_command()
        while not self._commands.empty():
            self._commands.get()()
        outputs, self._outputs = self._outputs, []
        if not (self._is_dead or self._stops) and self._client.has_work():
            outputs += self._client.step()
        self.reports = LoadReports(report=self._client.load(), received=self._received)
        if outputs:
            self._on_outputs(outputs)

    def _wait_for_command(self) -> None:
        """Carry out the next command. An engine that idles is looked at now and then: it may be lost without a step."""
        while True:
            try:
                command = self._commands.get(timeout=None if self._is_dead else _CHECK_EVERY_S)
            except Empty:
                self._client.check()
            else:
                command()
                return

    def _die(self, error: BaseException) -> None:
        if self._is_dead:
            _log.debug("the engine, which is dead, failed again", exc_info=error)
            return
        self._is_dead = True
        if isinstance(error, EngineDeadError):
            death = error
        else:
            death = EngineDeadError(f"the engine's thread failed: {described(error)}")
            death.__cause__ = error
        _log.error("the engine is dead: %s", death)
        try:
            self._on_death(death)
        except BaseException:  # noqa: BLE001 - the thread goes on, or questions would wait for ever
            _log.exception("nobody could be told that the engine is dead")

    def _stop(self) -> None:
        self._stops = True

    def _forget_client(self, client: int) -> None:
        self._received = {number: count for number, count in self._received.items() if number != client}

    def _count(self, requests: Sequence[EngineRequest]) -> None:
        client = requests[0].client
        self._received = {**self._received, client: self._received.get(client, 0) + len(requests)}

    def _count_and_refuse(self, requests: Sequence[EngineRequest], reason: str) -> None:
        self._count(requests)
        self._refuse(requests, reason)

    def _add(self, requests: Sequence[EngineRequest]) -> None:
        self._count(requests)
        if self._is_dead:
            return
        try:
            self._client.add(requests)
        except InvalidRequestError as error:
            self._refuse(requests, str(error))

    def _refuse(self, requests: Sequence[EngineRequest], reason: str) -> None:
        self._outputs += [
            EngineOutput(request_id=request.request_id, new_token_ids=[], finish_reason=FinishReason.ERROR, error=reason)
            for request in requests
        ]

    def _finish(self, request_id: str, num_output_tokens: int) -> None:
        output = self._client.finish(request_id, num_output_tokens)
        if output is not None:
            self._outputs.append(output)

    def _check_alive(self) -> None:
        if self._is_dead:
            raise EngineDeadError("the engine is dead")
        try:
            self._client.check()
        except EngineDeadError as death:
            self._die(death)
            raise


def _answer(answer: "Future[T]", question: Callable[[], T]) -> None:
    """Fulfil a future that nobody may wait for any more."""
    if not answer.set_running_or_notify_cancel():
        return
    try:
        result = question()
    except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
        answer.set_exception(error)
    except BaseException as error:
        # Raised as it is where the answer is awaited, it could end an event loop.
        answer.set_exception(EngineDeadError(f"the engine failed: {described(error)}"))
        raise
    else:
        answer.set_result(result)
