"""All requests of one event loop that are on their way through the engine."""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from octavo.engine.link import EngineLink, OnDeath, OnOutputs
from octavo.engine.messages import EngineOutput
from octavo.errors import EngineDeadError, InvalidRequestError, described
from octavo.output.open_request import OpenRequest
from octavo.output.processor import OutputProcessor
from octavo.types import FinishReason


class OpenRequests:
    """Brings requests to the engine, and what the engine says to those who wait for it. Lives in the event loop's thread.

    Args:
        connect: makes the link to the engine from what is to hear outputs and of the engine's death.

    Attributes:
        link: to the engine.
    """

    def __init__(self, connect: Callable[[OnOutputs, OnDeath], EngineLink]) -> None:
        self._processor = OutputProcessor()
        self._open: dict[str, OpenRequest] = {}
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.link = connect(self.deliver, self.fail_all)

    def __len__(self) -> int:
        return len(self._open)

    def check_alive(self) -> None:
        """Raise `EngineDeadError` where the engine is dead or closed."""
        if (death := self.link.death) is not None:
            raise EngineDeadError(str(death)) from death

    def bind(self) -> None:
        """Serve the running event loop from now on. Raises `InvalidRequestError` while another one has requests."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        self._drop_orphans()
        if self._open:
            raise InvalidRequestError("this AsyncLLM has requests in another event loop: use it in one at a time")
        self.link.bind(loop)
        self._loop = loop

    def enter(self, request: OpenRequest) -> None:
        """Queue a request. Raises `EngineDeadError`."""
        self.bind()
        self.check_alive()
        group = request.group
        self._names[request.name].add(group.request_id)
        self._processor.add(group)
        self._open[group.request_id] = request
        try:
            self.link.add(group.requests)
        except BaseException:
            self.leave(request)
            raise

    def leave(self, request: OpenRequest) -> None:
        """Expect nothing more of a request, and abort what has not finished. Nothing to do where its event loop ended before it."""
        group = request.group
        if self._open.pop(group.request_id, None) is None:
            return
        self._names[request.name].remove(group.request_id)
        if not self._names[request.name]:
            del self._names[request.name]
        if unfinished := self._processor.forget(group):
            self.link.abort(unfinished)

    def abort(self, name: str) -> bool:
        """End the requests of a name, whose last output then says so; False where there is none that has not ended."""
        self._drop_orphans()
        requests = [request for key in self._names.get(name, ()) if not (request := self._open[key]).finished]
        for request in requests:
            unfinished = [choice.request_id for choice in request.group.choices if not choice.finished]
            self.link.abort(unfinished)
            self._processor.process(EngineOutput(request_id=key, new_token_ids=[], finish_reason=FinishReason.ABORT) for key in unfinished)
            request.note_end()
        return bool(requests)

    def deliver(self, outputs: list[EngineOutput]) -> None:
        """Wake the readers of requests that gained something, and end the requests that a stop string ended.

        Whatever is raised on the way is told to every reader, for nobody knows which of them would wait for ever.
        """
        try:
            self._deliver(outputs)
        except BaseException as error:
            self.fail_all(EngineDeadError(f"the outputs of the engine could not be handed out: {described(error)}"))
            raise

    def fail_all(self, error: EngineDeadError) -> None:
        """Tell every reader that the engine cannot go on."""
        self._drop_orphans()
        for request in self._open.values():
            request.note_death(error)

    def _deliver(self, outputs: list[EngineOutput]) -> None:
        processed = self._processor.process(outputs)
        for request_id, num_output_tokens in processed.stopped:
            self.link.finish(request_id, num_output_tokens)
        for group in processed.changed:
            request = self._open[group.request_id]
            if not group.finished:
                request.note_change()
            elif not self._processor.expects(group):
                request.note_end()

    def _drop_orphans(self) -> None:
        """Give up the requests of an event loop that was closed under them: nobody can read them any more."""
        if self._loop is not None and self._loop.is_closed():
            for request in list(self._open.values()):
                self.leave(request)
