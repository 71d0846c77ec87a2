"""From a checked prompt to the requests of its choices."""

from itertools import count

import msgspec

from octavo.engine.messages import EngineRequest
from octavo.input.bad_words import bad_token_sequences
from octavo.input.prompts import TokenizedPrompt
from octavo.input.seeds import SeedSource, choice_seed
from octavo.sampling_params import SamplingParams
from octavo.text.tokenizer import Tokenizer


class RequestFactory:
    """Gives requests their ids and seeds.

    Args:
        seed: what the seeds of requests that bring none are derived from; None: drawn anew.
        tokenizer: of the model, for bad words.
        id_prefix: what ids begin with, where several clients share an engine.
    """

    def __init__(self, seed: int | None, tokenizer: Tokenizer, *, id_prefix: str = "") -> None:
        self._tokenizer = tokenizer
        self._id_prefix = id_prefix
        self._ids = count()
        self._seeds = SeedSource(seed)

    def make(
        self,
        prompt: TokenizedPrompt,
        params: SamplingParams,
        *,
        priority: int,
        arrival_time: float,
        cache_salt: str | None = None,
        tenant: str = "",
    ) -> list[EngineRequest]:
        """One request a choice. The first bears the prompt's id and leads the others, which share the blocks of its prompt.

        It alone asks for log-probabilities of the prompt: they are the same for all. Raises `InvalidRequestError` for bad words that
        have no tokens.
        """
        leader = f"{self._id_prefix}{next(self._ids)}"
        seed = self._seeds.draw() if params.seed is None else params.seed
        first = params if params.n == 1 else msgspec.structs.replace(params, n=1)
        other = first if first.prompt_logprobs is None else msgspec.structs.replace(first, prompt_logprobs=None)
        bad_sequences = bad_token_sequences(params.bad_words, self._tokenizer) if params.bad_words else []
        return [
            EngineRequest(
                request_id=leader if index == 0 else f"{leader}.{index}",
                token_ids=prompt.token_ids,
                params=first if index == 0 else other,
                arrival_time=arrival_time,
                seed=choice_seed(seed, index),
                priority=priority,
                leader=None if index == 0 else leader,
                cache_salt=cache_salt,
                bad_sequences=bad_sequences,
                tenant=tenant,
            )
            for index in range(params.n)
        ]
