"""What every facade has in front of its engine: prompts become checked requests, and the engine's tokens become text."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from octavo.config.keywords import options_from_keywords
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

    Attributes:
        reader: turns prompts of every form into token ids.
        processor: hands the engine's outputs to their groups.
    """

    def __init__(self, engine: "Engine") -> None:
        self.reader = PromptReader(tokenizer=engine.tokenizer, chat_template=engine.chat_template, vocab_size=engine.info.vocab_size)
        self.processor = OutputProcessor()
        self._engine = engine
        self._factory = RequestFactory(engine.config.seed, engine.tokenizer)

    def default_sampling_params(self, **given: Any) -> SamplingParams:
        """Octavo's defaults, above them the model's own (`generation_config.json`), above them what is given."""
        return SamplingParams(**self._engine.generation_defaults.apply(given))

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
        info, now, groups = self._engine.info, time.monotonic(), []
        for index, (prompt, one_params, priority) in enumerate(zip(prompts, params, priorities, strict=True)):
            with say_which(index if numbered else None):
                check_params(one_params, info)
                requests = self._factory.make(prompt, one_params, priority=priority, arrival_time=now)
                max_total_tokens(requests[0], max_model_len=info.max_model_len, pool_tokens=info.max_pool_tokens)
            groups.append(RequestGroup(requests, prompt=prompt.text, tokenizer=self._engine.tokenizer))
        return groups


def load_engine(
    model: str | None, *, plugins_allow: Sequence[str] | None, plugins_block: Sequence[str] | None, engine_flags: Mapping[str, Any]
) -> "Engine":
    """The engine that the keywords of a facade ask for; None for the plugins takes what the environment says."""
    options = options_from_keywords({"model": model, **engine_flags})
    from octavo.engine.build import build_engine

    environment = read_environment()
    return build_engine(
        options,
        plugins_allow=environment.plugins_allow if plugins_allow is None else tuple(plugins_allow),
        plugins_block=environment.plugins_block if plugins_block is None else tuple(plugins_block),
    )
