"""The offline facade: prompts in, finished texts out."""

from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from octavo.errors import RequestFailedError
from octavo.frontend import Frontend, load_engine
from octavo.input.batch import per_prompt
from octavo.input.prompts import Message, Prompt, split_prompts
from octavo.metrics.stats import EngineStats
from octavo.output.driver import Driver
from octavo.output.group import RequestGroup
from octavo.output.progress import Progress
from octavo.outputs import RequestOutput
from octavo.sampling_params import SamplingParams

if TYPE_CHECKING:
    from octavo.engine.build import Engine


class LLM:
    """A model that continues prompts, many at once. A context manager; a call while another thread is in one is refused.

    Everything that is wrong with a call raises before any of its prompts is queued, and the next call works as ever.

    Args:
        model: name of a source, folder, file or hub id; None takes the source that offers itself as default.
        plugins_allow: the only plugins to load; None takes `OCTAVO_PLUGINS_ALLOW`, or all.
        plugins_block: plugins not to load; None takes `OCTAVO_PLUGINS_BLOCK`.
        engine_flags: fields of `octavo.EngineOptions`, the flags of the command line with underscores.

    Raises:
        ConfigurationError: a flag cannot be, or nothing fits into memory.
        CheckpointError: the model's files are incomplete, damaged or of an unknown kind.
        PluginError: a plugin is broken.
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
        """A facade over an engine that stands already; it is closed with the facade."""
        llm = cls.__new__(cls)
        llm._set_up(engine)
        return llm

    def _set_up(self, engine: "Engine") -> None:
        self.engine = engine
        self._client = engine.client
        self._frontend = Frontend.of(engine)
        self._reader = self._frontend.reader
        self._driver = Driver(self._client, self._frontend.processor)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        priority: int | Sequence[int] = 0,
    ) -> list[RequestOutput]:
        """Continue prompts and return when all are finished, in their order.

        Args:
            prompts: one prompt or a list of them: text (special tokens are added as the tokenizer says), token ids,
                `{"prompt_token_ids": ids}`, `{"prompt": text}`, or messages, which go through the chat template.
            sampling_params: for all prompts, or one for each; None is `default_sampling_params()`.
            use_tqdm: show a progress bar on stderr.
            priority: for all prompts, or one for each; lower runs earlier under the priority policy.

        Raises:
            InvalidRequestError: a prompt or its parameters cannot be; nothing was queued.
            RequestFailedError: a prompt failed; raised when the others have finished, with all outputs.
            EngineDeadError: the engine cannot go on.
        """
        listed, is_list = split_prompts(prompts)
        params = per_prompt("sampling_params", self._default_if_none(sampling_params), SamplingParams, len(listed))
        priorities = per_prompt("priority", priority, int, len(listed))
        tokenized = self._reader.read(listed, numbered=is_list)
        return self._finish_all(self._frontend.prepare(tokenized, params, priorities, numbered=is_list), use_tqdm=use_tqdm)

    def as_completed(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = False,
        priority: int | Sequence[int] = 0,
    ) -> Generator[tuple[int, RequestOutput], None, None]:
        """Continue prompts and yield each as soon as it is finished, with its place in the list.

        Arguments are those of `generate`; prompts are checked and queued when the first output is asked for, and closing the iterator
        ends what still runs. A prompt that fails raises nothing: its output has a choice with `finish_reason` "error".
        """
        listed, is_list = split_prompts(prompts)
        params = per_prompt("sampling_params", self._default_if_none(sampling_params), SamplingParams, len(listed))
        priorities = per_prompt("priority", priority, int, len(listed))
        groups = self._frontend.prepare(self._reader.read(listed, numbered=is_list), params, priorities, numbered=is_list)
        places = {group.request_id: place for place, group in enumerate(groups)}
        with Progress(len(groups), enabled=use_tqdm) as progress, self._driver.queued(groups) as ended:
            for _ in groups:
                self._driver.advance(lambda: bool(ended))
                group = ended.popleft()
                progress.finished(group)
                yield places[group.request_id], group.output()

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        priority: int | Sequence[int] = 0,
        add_generation_prompt: bool = True,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[RequestOutput]:
        """Answer one conversation or a list of them; as `generate`, but answers go to the end of the context by default.

        Args:
            messages: of one conversation, or of each: mappings with `role` and `content`.
            sampling_params, use_tqdm, priority: see `generate`; None for the first is `default_sampling_params(max_tokens=None)`.
            add_generation_prompt: end the prompt with the header of the answer.
            chat_template_kwargs: further variables of the model's chat template.
        """
        listed, is_list = split_prompts(messages)
        if sampling_params is None:
            sampling_params = self.default_sampling_params(max_tokens=None)
        params = per_prompt("sampling_params", sampling_params, SamplingParams, len(listed))
        priorities = per_prompt("priority", priority, int, len(listed))
        tokenized = self._reader.read_chats(
            listed, numbered=is_list, add_generation_prompt=add_generation_prompt, template_kwargs=chat_template_kwargs
        )
        return self._finish_all(self._frontend.prepare(tokenized, params, priorities, numbered=is_list), use_tqdm=use_tqdm)

    def stream(
        self, prompt: Prompt, sampling_params: SamplingParams | None = None, *, priority: int = 0
    ) -> Generator[RequestOutput, None, None]:
        """Continue one prompt and yield what there is of it whenever it has grown; the last output is finished.

        The prompt is checked and queued when the first output is asked for. Closing the iterator ends the request.
        """
        params = per_prompt("sampling_params", self._default_if_none(sampling_params), SamplingParams, 1)
        (group,) = self._frontend.prepare(self._reader.read([prompt], numbered=False), params, [priority], numbered=False)
        num_seen = 0

        def has_grown() -> bool:
            return group.num_changes > num_seen

        with self._driver.queued([group]):
            while has_grown() or not group.finished:
                self._driver.advance(has_grown)
                num_seen = group.num_changes
                yield group.output()
        self._raise_if_failed([group])

    def score(self, prompts: Prompt | Sequence[Prompt], *, use_tqdm: bool = True) -> list[list[float | None]]:
        """How likely prompts are: for each the log-probability of every token given those before it, None for the first.

        Nothing is generated. Arguments and errors are those of `generate`.
        """
        listed, is_list = split_prompts(prompts)
        params = [SamplingParams(max_tokens=0, prompt_logprobs=0, detokenize=False)] * len(listed)
        groups = self._frontend.prepare(self._reader.read(listed, numbered=is_list), params, [0] * len(listed), numbered=is_list)
        self._run_all(groups, use_tqdm=use_tqdm)
        return [group.prompt_values() for group in groups]

    def default_sampling_params(self, **given: Any) -> SamplingParams:
        """Octavo's defaults, above them the model's own (`generation_config.json`), above them what is given."""
        return self._frontend.default_sampling_params(**given)

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. False, and nothing is done, while requests hold blocks."""
        with self._driver.turn():
            return self._client.reset_prefix_cache()

    def stats(self) -> EngineStats:
        """Counters and load of the engine at this moment."""
        return self._client.stats()

    def close(self) -> None:
        """Release the model and its memory; calling it twice is fine."""
        with self._driver.turn():
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _default_if_none(self, params: SamplingParams | Sequence[SamplingParams] | None) -> SamplingParams | Sequence[SamplingParams]:
        return self.default_sampling_params() if params is None else params

    def _finish_all(self, groups: list[RequestGroup], *, use_tqdm: bool) -> list[RequestOutput]:
        self._run_all(groups, use_tqdm=use_tqdm)
        return [group.output() for group in groups]

    def _run_all(self, groups: list[RequestGroup], *, use_tqdm: bool) -> None:
        """Run groups to their ends. Raises `RequestFailedError` where one failed."""
        with Progress(len(groups), enabled=use_tqdm) as progress:
            self._driver.run(groups, progress.finished)
        self._raise_if_failed(groups)

    def _raise_if_failed(self, groups: list[RequestGroup]) -> None:
        failed = [(index, group.error) for index, group in enumerate(groups) if group.error is not None]
        if failed:
            index, error = failed[0]
            which = f"{len(failed)} of {len(groups)} prompts failed, the first is prompt {index}: " if len(groups) > 1 else ""
            raise RequestFailedError(f"{which}{error}", outputs=[group.output() for group in groups])
