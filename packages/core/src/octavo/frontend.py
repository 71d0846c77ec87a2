"""What every facade has in front of its engine: prompts become checked requests, and the engine's tokens become text."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from octavo.config.keywords import check_names, options_from_keywords
from octavo.engine.messages import ModelInfo
from octavo.engine.text_side import TextSide
from octavo.env import read_environment
from octavo.input.batch import say_which
from octavo.input.checks import check_params
from octavo.input.prompts import PromptReader, TokenizedPrompt
from octavo.input.requests import RequestFactory
from octavo.output.group import RequestGroup
from octavo.output.processor import OutputProcessor
from octavo.sampling_params import SamplingParams
from octavo.scheduler.limits import max_total_tokens

if TYPE_CHECKING:
    from octavo.engine.build import Engine


class Frontend:
    """The text side of one engine. Queues nothing itself; for one thread at a time, but for `reader`, which threads may share.

    Args:
        text: of the model.
        info: limits of the engine.
        seed: what the seeds of requests that bring none are derived from; None: drawn anew.
        id_prefix: what the ids of requests begin with, where several clients share an engine.

    Attributes:
        reader: turns prompts of every form into token ids.
        processor: hands the engine's outputs to their groups.
    """

    def __init__(self, text: TextSide, info: ModelInfo, *, seed: int | None, id_prefix: str = "") -> None:
        self.reader = PromptReader(
            tokenizer=text.tokenizer, chat_template=text.chat_template, vocab_size=info.vocab_size, max_model_len=info.max_model_len
        )
        self.processor = OutputProcessor()
        self._text = text
        self._info = info
        self._factory = RequestFactory(seed, text.tokenizer, id_prefix=id_prefix)

    @classmethod
    def of(cls, engine: "Engine") -> Self:
        """For an engine in this process."""
        return cls(engine.text, engine.info, seed=engine.config.seed)

    def default_sampling_params(self, **given: Any) -> SamplingParams:
        """Octavo's defaults, above them the model's own (`generation_config.json`), above them what is given."""
        return SamplingParams(**self._text.generation_defaults.apply(given))

    def prepare(
        self, prompts: Sequence[TokenizedPrompt], params: Sequence[SamplingParams], priorities: Sequence[int], *, numbered: bool
    ) -> list[RequestGroup]:
        """Check prompts and parameters against the limits of the engine, and make their requests.

        Args:
            prompts, params, priorities: one a prompt.
            numbered: name the number of the prompt that is refused.

        Raises:
            InvalidRequestError: a prompt or its parameters cannot be.
        """
        groups = []
        for index, (prompt, one_params, priority) in enumerate(zip(prompts, params, priorities, strict=True)):
            with say_which(index if numbered else None):
                groups.append(self.prepare_one(prompt, one_params, priority=priority))
        return groups

    def prepare_one(
        self, prompt: TokenizedPrompt, params: SamplingParams, *, priority: int = 0, cache_salt: str | None = None, tenant: str = ""
    ) -> RequestGroup:
        """As `prepare`, for one prompt; the last two are fields of `EngineRequest`, the salt in place of the prompt's own."""
        info = self._info
        check_params(params, info)
        salt = prompt.cache_salt if cache_salt is None else cache_salt
        requests = self._factory.make(prompt, params, priority=priority, arrival_time=time.monotonic(), cache_salt=salt, tenant=tenant)
        max_total_tokens(requests[0], max_model_len=info.max_model_len, pool_tokens=info.max_pool_tokens)
        return RequestGroup(requests, prompt=prompt.text, tokenizer=self._text.tokenizer)


def load_engine(
    model: str | None, *, plugins_allow: Sequence[str] | None, plugins_block: Sequence[str] | None, engine_flags: Mapping[str, Any]
) -> "Engine":
    """The engine that the keywords of a facade ask for; None for the plugins takes what the environment says."""
    options = options_from_keywords({"model": model, **engine_flags})
    allow, block = check_names("plugins_allow", plugins_allow), check_names("plugins_block", plugins_block)
    from octavo.engine.build import build_engine

    environment = read_environment()
    return build_engine(
        options,
        plugins_allow=environment.plugins_allow if allow is None else allow,
        plugins_block=environment.plugins_block if block is None else block,
    )
