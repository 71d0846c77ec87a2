"""An engine in a thread of its own."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from octavo.engine.client import InProcessClient
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import EngineDeadError, InvalidRequestError
from octavo.metrics.stats import EngineStats
from octavo.types import FinishReason

T = TypeVar("T")

_log = logging.getLogger(__name__)


class BackgroundEngine:
    """Steps an engine as long as there is work, and sleeps where there is none.

    Every method may be called from any thread. None but `close` waits: what they ask for is carried out in order between two steps,
    and what has an answer returns a future.

    Args:
        client: of the engine; nobody else may use it any more.
        on_outputs: gets what a step brought, in the engine's thread, once a step; must not wait.
        on_death: told once, in the engine's thread, that the engine cannot go on.
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
        self._is_dead = False
        self._stops = False
        self._closed = False
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="octavo-engine", daemon=True)
        self._thread.start()

    def add(self, requests: Sequence[EngineRequest]) -> None:
        """Queue requests, all or none; what the engine refuses ends with an output that says why. Raises `EngineDeadError` when closed."""
        self._command(partial(self._add, requests))

    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests without another output; unknown ids and a closed engine are fine."""
        self._command(partial(self._client.abort, list(request_ids)), tolerate_closed=True)

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
        while not self._stops:
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - nothing above this thread could hear of it
                self._die(error)
        self._client.close()

    def _turn(self) -> None:
        """Carry out what was asked for, waiting for it where there is nothing else to do, and take one step."""
        if self._is_dead or not self._client.has_work():
            self._commands.get()()
        while not self._commands.empty():
            self._commands.get()()
        outputs, self._outputs = self._outputs, []
        if not (self._is_dead or self._stops) and self._client.has_work():
            outputs += self._client.step()
        if outputs:
            self._on_outputs(outputs)

    def _die(self, error: Exception) -> None:
        if self._is_dead:
            return
        self._is_dead = True
        death = error
        if not isinstance(death, EngineDeadError):
            death = EngineDeadError(f"the engine's thread failed: {type(error).__name__}: {error}")
            death.__cause__ = error
        _log.error("the engine is dead: %s", death)
        self._on_death(death)

    def _stop(self) -> None:
        self._stops = True

    def _add(self, requests: Sequence[EngineRequest]) -> None:
        if self._is_dead:
            return
        try:
            self._client.add(requests)
        except InvalidRequestError as error:
            self._outputs += [
                EngineOutput(request_id=request.request_id, new_token_ids=[], finish_reason=FinishReason.ERROR, error=str(error))
                for request in requests
            ]

    def _finish(self, request_id: str, num_output_tokens: int) -> None:
        output = self._client.finish(request_id, num_output_tokens)
        if output is not None:
            self._outputs.append(output)

    def _check_alive(self) -> None:
        if self._is_dead:
            raise EngineDeadError("the engine is dead")


def _answer(answer: "Future[T]", question: Callable[[], T]) -> None:
    """Fulfil a future that nobody may wait for any more."""
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(question())
    except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
        answer.set_exception(error)
