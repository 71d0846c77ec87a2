"""Prompts run to their ends in the caller's thread."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from octavo.engine.client import InProcessClient
from octavo.engine.interrupts import interrupt_afterwards
from octavo.errors import InvalidRequestError, RequestFailedError
from octavo.output.group import RequestGroup
from octavo.output.processor import OutputProcessor

Ended: TypeAlias = deque[RequestGroup]
"""Groups that came to their ends and were not looked at yet."""


class Driver:
    """Steps an engine for those who wait for it, any number of them at once, of which whoever steps serves all.

    One thread has its turn at a time, and another one is refused rather than kept waiting.

    Args:
        client: of the engine.
        processor: knows the groups under way.
    """

    def __init__(self, client: InProcessClient, processor: OutputProcessor) -> None:
        self._client = client
        self._processor = processor
        self._busy = threading.Lock()
        self._ended: dict[str, Ended] = {}
        self._given_up: deque[list[RequestGroup]] = deque()

    def run(self, groups: Sequence[RequestGroup], on_end: Callable[[RequestGroup], None]) -> None:
        """Run groups to their ends, in one turn.

        Raises:
            InvalidRequestError: another thread has its turn.
            RequestFailedError: what the groups would have gained went elsewhere.
            EngineDeadError: the engine cannot go on.
        """
        with self.turn():
            try:
                ended = self._queue(groups)
                for _ in groups:
                    self._step_until(lambda: bool(ended))
                    on_end(ended.popleft())
            finally:
                self._give_up(groups)

    @contextmanager
    def queued(self, groups: Sequence[RequestGroup]) -> Iterator[Ended]:
        """Queue the requests of groups; what has not finished behind the block is aborted. Raises as `run`.

        Inside it `advance` steps, and between two steps others may. Yields the groups that ended, as they end.
        """
        try:
            with self.turn():
                ended = self._queue(groups)
            yield ended
        finally:
            self._give_up(groups)

    def advance(self, is_enough: Callable[[], bool]) -> None:
        """Step, if at all, until something holds that the groups under way are to bring about. Raises as `run`."""
        if not is_enough():
            with self.turn():
                self._step_until(is_enough)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have the engine to oneself. Raises `InvalidRequestError` where somebody else has it."""
        if not self._busy.acquire(blocking=False):
            raise InvalidRequestError(
                "this LLM is at work for another thread, or in the middle of a step: call it from one thread at a time, or use AsyncLLM"
            )
        try:
            yield
        finally:
            try:
                self._abort_given_up()
            finally:
                self._busy.release()
            self._settle()

    def _queue(self, groups: Sequence[RequestGroup]) -> Ended:
        ended: Ended = deque()
        for group in groups:
            self._processor.add(group)
            self._ended[group.request_id] = ended
        with interrupt_afterwards():
            self._client.add([request for group in groups for request in group.requests])
        return ended

    def _give_up(self, groups: Sequence[RequestGroup]) -> None:
        """Abort what has not finished: now, or, where somebody has a turn (an iterator may be collected at any time), before it ends."""
        self._given_up.append(list(groups))
        self._settle()

    def _settle(self) -> None:
        while self._given_up and self._busy.acquire(blocking=False):
            try:
                self._abort_given_up()
            finally:
                self._busy.release()

    def _abort_given_up(self) -> None:
        with interrupt_afterwards():
            while self._given_up:
                groups = self._given_up.popleft()
                for group in groups:
                    self._ended.pop(group.request_id, None)
                self._client.abort([request_id for group in groups for request_id in self._processor.forget(group)])

    def _step_until(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            if self._given_up:
                self._abort_given_up()
            with interrupt_afterwards():
                gained = self._step()
            if not gained and not is_enough() and not self._client.has_work():
                raise RequestFailedError("the engine has nothing left to do for this call: its outputs went to another user of the engine")

    def _step(self) -> bool:
        """One step, with the last outputs of requests that a stop string ended. Whether anybody gained something."""
        processed = self._processor.process(self._client.step())
        last = [self._client.finish(request_id, num_output_tokens) for request_id, num_output_tokens in processed.stopped]
        self._processor.process(output for output in last if output is not None)
        for group in processed.changed:
            if group.finished and (ended := self._ended.pop(group.request_id, None)) is not None:
                ended.append(group)
        return bool(processed.changed)
