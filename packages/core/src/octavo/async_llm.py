"""The facade for event loops: many prompts that come and go while the engine runs in the background."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from threading import TIMEOUT_MAX
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from octavo.config.options import EngineOptions
from octavo.engine.link import EngineLink, OnDeath, OnOutputs
from octavo.engine.load import EngineLoad
from octavo.engine.messages import ModelInfo
from octavo.engine.text_side import TextSide, find_text_side
from octavo.engine.threaded import ThreadedEngine
from octavo.errors import EngineDeadError, InvalidRequestError, RequestFailedError, shown
from octavo.frontend import Frontend, load_engine
from octavo.input.batch import per_prompt
from octavo.input.length import beside_streams, is_long
from octavo.input.prompts import Prompt, PromptReader, TokenizedPrompt
from octavo.input.seeds import choice_seed
from octavo.metrics.stats import EngineStats
from octavo.output.open_request import OpenRequest
from octavo.output.open_requests import OpenRequests
from octavo.outputs import RequestOutput
from octavo.sampling_params import SamplingParams
from octavo.text.chat_template import ChatTemplate
from octavo.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from octavo.engine.build import Engine
    from octavo.engine.process import EngineProcess


class AsyncLLM:
    """A model that continues prompts as they come. An asynchronous context manager, for one event loop at a time.

    The engine runs in a thread, or in a process of its own that `connect` reaches; requests join between its steps, and all that a
    step brought comes to the event loop at once. Ending a stream, cancelling the task that awaits it and `abort` end the request and
    free its memory. What goes wrong with one request is raised in its stream alone; an engine that cannot go on raises
    `EngineDeadError` in all of them.

    The arguments and what they raise are those of `octavo.LLM`. The model is loaded before this returns, which takes seconds:
    in a running event loop write `await asyncio.to_thread(AsyncLLM, …)` where others would have to wait.

    Attributes:
        info: limits of the engine.
        reader: turns prompts of every form into token ids; threads may share it.
    """

    info: ModelInfo
    reader: PromptReader

    def __init__(
        self,
        model: str | None = None,
        *,
        plugins_allow: Sequence[str] | None = None,
        plugins_block: Sequence[str] | None = None,
        **engine_flags: Any,
    ) -> None:
        self._use(load_engine(model, plugins_allow=plugins_allow, plugins_block=plugins_block, engine_flags=engine_flags))

    @classmethod
    def from_engine(cls, engine: "Engine") -> Self:
        """A facade over an engine that stands already and that nobody else uses; it is closed with the facade."""
        llm = cls.__new__(cls)
        llm._use(engine)
        return llm

    @classmethod
    async def connect(
        cls,
        options: EngineOptions,
        folder: Path,
        *,
        client: int = 0,
        engine: int = 0,
        plugins_allow: tuple[str, ...] | None = None,
        plugins_block: tuple[str, ...] = (),
        process: "EngineProcess | None" = None,
    ) -> Self:
        """A facade over an engine in another process, which may be loading still; it serves the running event loop alone.

        When the engine is lost, `death` says so until one answers at the same place again.

        Args:
            options: those of the engine: what talks text is loaded here.
            folder: where the engine's socket lies.
            client: number of this client among those of the engine.
            engine: number of the engine.
            plugins_allow, plugins_block: see `octavo.plugins.manager.load_plugins`.
            process: of the engine, where this process is its parent: when it ends before it is ready, there is nothing to wait for.

        Raises:
            ConfigurationError, CheckpointError, PluginError: as the engine or the text side failed.
            EngineDeadError: the engine's start failed in another way.
        """
        from octavo.engine.remote import RemoteEngine

        link = RemoteEngine(folder, client, engine=engine)
        try:
            text, ready = await asyncio.gather(
                asyncio.to_thread(find_text_side, options, plugins_allow=plugins_allow, plugins_block=plugins_block),
                link.ready(check=None if process is None else process.ready_info),
            )
        except BaseException:
            await link.close()
            raise
        seed = None if options.seed is None else choice_seed(options.seed, client)
        frontend = Frontend(text, ready.info, seed=seed, id_prefix=f"{client}-")
        llm = cls.__new__(cls)
        llm._set_up(text, ready.info, frontend, link.listen)
        return llm

    def _use(self, engine: "Engine") -> None:
        def connect(on_outputs: OnOutputs, on_death: OnDeath) -> ThreadedEngine:
            return ThreadedEngine(engine.client, on_outputs=on_outputs, on_death=on_death)

        self._set_up(engine.text, engine.info, Frontend.of(engine), connect)

    def _set_up(self, text: TextSide, info: ModelInfo, frontend: Frontend, connect: Callable[[OnOutputs, OnDeath], EngineLink]) -> None:
        self.info = info
        self.reader = frontend.reader
        self._text = text
        self._frontend = frontend
        self._requests = OpenRequests(connect)

    @property
    def model_name(self) -> str:
        """What the user called the model, or the source that offered itself."""
        return self._text.model_name

    @property
    def tokenizer(self) -> Tokenizer:
        """Of the model."""
        return self._text.tokenizer

    @property
    def chat_template(self) -> ChatTemplate:
        """Of the model; without source where it has none."""
        return self._text.chat_template

    @property
    def death(self) -> EngineDeadError | None:
        """Why the engine takes no requests at this moment; None while it does."""
        return self._requests.link.death

    @property
    def is_alive(self) -> bool:
        """Whether the engine takes requests."""
        return self.death is None

    @property
    def engine_process_id(self) -> int | None:
        """Of the process in which the engine is, or was when it was lost; None where that is this one."""
        return self._requests.link.process_id

    @property
    def is_rejoining(self) -> bool:
        """Whether the engine lives although it is lost to this process, and will take requests again: it forgot a client that stalled."""
        return self._requests.link.is_rejoining

    def open(
        self,
        prompt: TokenizedPrompt,
        params: SamplingParams,
        *,
        request_id: str | None = None,
        priority: int = 0,
        cache_salt: str | None = None,
        tenant: str = "",
    ) -> OpenRequest:
        """Check one prompt of `reader`; it is queued when the block of the request is entered.

        Args:
            prompt: token ids, in the vocabulary.
            params: how it is continued.
            request_id: name of the request in its outputs and for `abort`; None: a new one. Several requests may bear one name.
            priority: lower runs earlier under the priority policy.
            cache_salt: cached prefixes are shared between requests of one salt only.
            tenant: to whose account it runs.

        Raises:
            InvalidRequestError: the parameters cannot be, or the prompt is too long.
            EngineDeadError: the engine cannot go on.
        """
        self._requests.check_alive()
        if request_id is not None:
            _check_name(request_id)
        group = self._frontend.prepare_one(prompt, params, priority=priority, cache_salt=cache_salt, tenant=tenant)
        return OpenRequest(group, name=request_id or uuid4().hex, requests=self._requests)

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
        with await self._open(prompt, sampling_params, request_id, priority) as request:
            while await request.changes():
                yield request.output()
        _raise_if_failed(request)

    async def generate(
        self, prompt: Prompt, sampling_params: SamplingParams | None = None, *, request_id: str | None = None, priority: int = 0
    ) -> RequestOutput:
        """Continue one prompt and return when it is finished. Arguments and errors are those of `stream`."""
        with await self._open(prompt, sampling_params, request_id, priority) as request:
            output = await request.result()
        _raise_if_failed(request)
        return output

    def abort(self, request_id: str) -> bool:
        """End the requests of a name, whose last output then says so; False where none of them runs.

        Call it in the event loop's thread. Raises `InvalidRequestError` where the name is no string.
        """
        _check_name(request_id)
        return self._requests.abort(request_id)

    def default_sampling_params(self, **given: Any) -> SamplingParams:
        """Octavo's defaults, above them the model's own (`generation_config.json`), above them what is given."""
        return self._frontend.default_sampling_params(**given)

    def load(self) -> EngineLoad:
        """What the engine carries, as far as is known here, requests that are on their way to it included. Never waits."""
        return self._requests.link.load()

    async def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. False, and nothing is done, while requests hold blocks."""
        return await self._requests.link.reset_prefix_cache()

    async def stats(self) -> EngineStats:
        """Counters and load of the engine between two steps."""
        return await self._requests.link.stats()

    async def check_health(self, *, timeout_s: float = 30.0) -> None:
        """Return when the engine comes between two steps. Raises `EngineDeadError` where it is dead, closed or does not in that time.

        Raises `InvalidRequestError` where the time is none.
        """
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= TIMEOUT_MAX:
            raise InvalidRequestError(f"timeout_s is {shown(timeout_s)}: give seconds above 0", param="timeout_s")
        self._requests.check_alive()
        try:
            await asyncio.wait_for(self._requests.link.ping(), timeout_s)
        except TimeoutError as error:
            raise EngineDeadError(f"the engine has not come to the end of a step for {timeout_s:g} s") from error

    async def close(self) -> None:
        """End every stream and give the engine up; calling it twice is fine.

        An engine of this process ends: this waits for the step under way and releases the model and its memory.
        """
        await self._requests.link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _open(self, prompt: Prompt, sampling_params: SamplingParams | None, request_id: str | None, priority: int) -> OpenRequest:
        self._requests.check_alive()
        given = self.default_sampling_params() if sampling_params is None else sampling_params
        (params,) = per_prompt("sampling_params", given, SamplingParams, 1)
        (checked_priority,) = per_prompt("priority", priority, int, 1)
        tokenized = await beside_streams(lambda quick: self._read(prompt, quick=quick), is_long=is_long(prompt))
        return self.open(tokenized, params, request_id=request_id, priority=checked_priority)

    def _read(self, prompt: Prompt, *, quick: bool = False) -> TokenizedPrompt:
        (tokenized,) = self.reader.read([prompt], numbered=False, quick=quick)
        return tokenized


def _check_name(request_id: object) -> None:
    if not isinstance(request_id, str):
        raise InvalidRequestError(f"request_id is {shown(request_id)}: give a string", param="request_id")


def _raise_if_failed(request: OpenRequest) -> None:
    if request.error is not None:
        raise RequestFailedError(request.error, outputs=[request.output()])
