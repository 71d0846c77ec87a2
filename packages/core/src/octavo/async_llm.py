"""The facade for event loops: many prompts that come and go while the engine runs in the background."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from octavo.engine.background import BackgroundEngine
from octavo.engine.messages import EngineOutput
from octavo.errors import EngineDeadError, InvalidRequestError, RequestFailedError
from octavo.frontend import Frontend, load_engine
from octavo.input.batch import per_prompt
from octavo.input.prompts import Prompt, TokenizedPrompt
from octavo.metrics.stats import EngineStats
from octavo.output.group import RequestGroup
from octavo.output.stream import OutputStream
from octavo.outputs import RequestOutput
from octavo.sampling_params import SamplingParams
from octavo.types import FinishReason

if TYPE_CHECKING:
    from octavo.engine.build import Engine

LONG_PROMPT_CHARACTERS = 4096
"""Texts from here on are tokenized in a thread, so that other streams do not wait for them."""


class AsyncLLM:
    """A model that continues prompts as they come. An asynchronous context manager, for one event loop at a time.

    The engine runs in a thread; requests join between its steps, and all that a step brought crosses to the event loop at once.
    Ending a stream, cancelling the task that awaits it and `abort` end the request and free its memory. What goes wrong with one
    request is raised in its stream alone; an engine that cannot go on raises `EngineDeadError` in all of them.

    The arguments and what they raise are those of `octavo.LLM`. The model is loaded before this returns, which takes seconds:
    in a running event loop write `await asyncio.to_thread(AsyncLLM, …)` where others would have to wait.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        plugins_allow: Sequence[str] | None = None,
        plugins_block: Sequence[str] | None = None,
        **engine_flags: Any,
    ) -> None:
        self._set_up(load_engine(model, plugins_allow=plugins_allow, plugins_block=plugins_block, engine_flags=engine_flags))

    @classmethod
    def from_engine(cls, engine: "Engine") -> Self:
        """A facade over an engine that stands already and that nobody else uses; it is closed with the facade."""
        llm = cls.__new__(cls)
        llm._set_up(engine)
        return llm

    def _set_up(self, engine: "Engine") -> None:
        self.engine = engine
        self._frontend = Frontend(engine)
        self._streams: dict[str, OutputStream] = {}
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        self._arrived: deque[list[EngineOutput]] = deque()
        self._delivery_is_due = False
        self._death: EngineDeadError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background = BackgroundEngine(engine.client, on_outputs=self._hand_over, on_death=self._hand_over_death)

    async def stream(
        self, prompt: Prompt, sampling_params: SamplingParams | None = None, *, request_id: str | None = None, priority: int = 0
    ) -> AsyncGenerator[RequestOutput, None]:
        """Continue one prompt and yield what there is of it whenever it has grown; the last output is finished.

        Texts and token ids only grow, so that what is behind the length of the output before is new. A reader that is slower than the
        engine misses nothing: it gets what has come together. The prompt is checked and queued when the first output is asked for;
        closing the iterator ends the request.

        Args:
            prompt: text, token ids or messages, as for `octavo.LLM.generate`.
            sampling_params: None is `default_sampling_params()`.
            request_id: name of the request in its outputs and for `abort`; None: a new one. Several requests may bear one name.
            priority: lower runs earlier under the priority policy.

        Raises:
            InvalidRequestError: the prompt or its parameters cannot be; nothing was queued.
            RequestFailedError: the request failed, after its last output.
            EngineDeadError: the engine cannot go on.
        """
        name = request_id or uuid4().hex
        group = await self._prepare(prompt, sampling_params, priority)
        with self._submitted(group, name, every_change=True) as stream:
            is_last = False
            while not is_last:
                await stream.change()
                is_last = stream.complete
                yield _named_output(group, name)
        _raise_if_failed(group, name)

    async def generate(
        self, prompt: Prompt, sampling_params: SamplingParams | None = None, *, request_id: str | None = None, priority: int = 0
    ) -> RequestOutput:
        """Continue one prompt and return when it is finished. Arguments and errors are those of `stream`."""
        name = request_id or uuid4().hex
        group = await self._prepare(prompt, sampling_params, priority)
        with self._submitted(group, name, every_change=False) as stream:
            while not stream.complete:
                await stream.change()
        _raise_if_failed(group, name)
        return _named_output(group, name)

    def abort(self, request_id: str) -> bool:
        """End the requests of a name, whose last output then says so; False where there is none. Call it in the event loop's thread."""
        streams = [self._streams[key] for key in self._names.get(request_id, ())]
        for stream in streams:
            unfinished = [choice.request_id for choice in stream.group.choices if not choice.finished]
            self._background.abort(unfinished)
            self._frontend.processor.process(
                EngineOutput(request_id=key, new_token_ids=[], finish_reason=FinishReason.ABORT) for key in unfinished
            )
            stream.note_end()
        return bool(streams)

    def default_sampling_params(self, **given: Any) -> SamplingParams:
        """Octavo's defaults, above them the model's own (`generation_config.json`), above them what is given."""
        return self._frontend.default_sampling_params(**given)

    async def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. False, and nothing is done, while requests hold blocks."""
        return await asyncio.wrap_future(self._background.reset_prefix_cache())

    async def stats(self) -> EngineStats:
        """Counters and load of the engine between two steps."""
        return await asyncio.wrap_future(self._background.stats())

    async def check_health(self, *, timeout_s: float = 30.0) -> None:
        """Return when the engine comes between two steps. Raises `EngineDeadError` where it is dead, closed or does not in that time."""
        self._check_alive()
        try:
            await asyncio.wait_for(asyncio.wrap_future(self._background.ping()), timeout_s)
        except TimeoutError as error:
            raise EngineDeadError(f"the engine has not come to the end of a step for {timeout_s:g} s") from error

    async def close(self) -> None:
        """End every stream, wait for the step under way and release the model and its memory; calling it twice is fine."""
        self._fail_all(EngineDeadError("the engine is closed: start a new one"))
        await asyncio.to_thread(self._background.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _prepare(self, prompt: Prompt, sampling_params: SamplingParams | None, priority: int) -> RequestGroup:
        """Check a prompt; nothing is queued yet."""
        self._check_alive()
        self._bind_to_running_loop()
        given = self.default_sampling_params() if sampling_params is None else sampling_params
        params = per_prompt("sampling_params", given, SamplingParams, 1)
        priorities = per_prompt("priority", priority, int, 1)
        tokenized = await asyncio.to_thread(self._read, prompt) if _is_long(prompt) else self._read(prompt)
        (group,) = self._frontend.prepare(tokenized, params, priorities, numbered=False)
        return group

    def _read(self, prompt: Prompt) -> list[TokenizedPrompt]:
        return self._frontend.reader.read([prompt], numbered=False)

    @contextmanager
    def _submitted(self, group: RequestGroup, name: str, *, every_change: bool) -> Iterator[OutputStream]:
        """Queue the requests of a group; what has not finished behind the block is aborted."""
        self._check_alive()
        stream = OutputStream(group, every_change=every_change)
        self._frontend.processor.add(group)
        self._streams[group.request_id] = stream
        self._names[name].add(group.request_id)
        try:
            self._background.add(group.requests)
            yield stream
        finally:
            self._names[name].remove(group.request_id)
            if not self._names[name]:
                del self._names[name]
            del self._streams[group.request_id]
            if unfinished := self._frontend.processor.forget(group):
                self._background.abort(unfinished)

    def _hand_over(self, outputs: list[EngineOutput]) -> None:
        """Bring outputs to the event loop. Runs in the engine's thread; one call of the loop takes all that has come until it runs."""
        self._arrived.append(outputs)
        if self._delivery_is_due:
            return
        self._delivery_is_due = True
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            # The loop was closed under its requests: nobody is left who could read them.
            self._delivery_is_due = False
            self._background.abort({output.request_id for batch in self._arrived for output in batch})
            self._arrived.clear()

    def _hand_over_death(self, error: EngineDeadError) -> None:
        """Tell the event loop that the engine is dead. Runs in the engine's thread."""
        self._death = error
        if self._loop is not None:
            # A loop that is closed has nobody left to tell.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._fail_all, error)

    def _deliver(self) -> None:
        """Wake the streams that gained something, and end the requests that a stop string ended."""
        self._delivery_is_due = False
        processor = self._frontend.processor
        while self._arrived:
            processed = processor.process(self._arrived.popleft())
            for request_id, num_output_tokens in processed.stopped:
                self._background.finish(request_id, num_output_tokens)
            for group in processed.changed:
                stream = self._streams[group.request_id]
                if not group.finished:
                    stream.note_change()
                elif not processor.expects(group):
                    stream.note_end()

    def _fail_all(self, error: EngineDeadError) -> None:
        self._death = self._death or error
        for stream in self._streams.values():
            stream.note_death(self._death)

    def _check_alive(self) -> None:
        if self._death is not None:
            raise EngineDeadError(str(self._death)) from self._death

    def _bind_to_running_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._streams:
            raise InvalidRequestError("this AsyncLLM has requests in another event loop: use it in one at a time")
        self._loop = loop
        # The loop before may have ended with a delivery that it never made, and nothing is handed over while one is due.
        self._delivery_is_due = True
        loop.call_soon(self._deliver)


def _named_output(group: RequestGroup, name: str) -> RequestOutput:
    output = group.output()
    output.request_id = name
    return output


def _raise_if_failed(group: RequestGroup, name: str) -> None:
    if group.error is not None:
        raise RequestFailedError(group.error, outputs=[_named_output(group, name)])


def _is_long(prompt: object) -> bool:
    """Whether it takes noticeable time to tokenize a prompt: texts and messages whose texts are long together."""
    if isinstance(prompt, str):
        return len(prompt) >= LONG_PROMPT_CHARACTERS
    if isinstance(prompt, Mapping):
        return _is_long(prompt.get("prompt"))
    if isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], Mapping):
        return sum(len(str(message.get("content"))) for message in prompt if isinstance(message, Mapping)) >= LONG_PROMPT_CHARACTERS
    return False
