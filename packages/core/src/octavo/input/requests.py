"""From a checked prompt to the requests of its choices."""

from itertools import count

import msgspec

from octavo.engine.messages import EngineRequest
from octavo.input.prompts import TokenizedPrompt
from octavo.input.seeds import SeedSource, choice_seed
from octavo.sampling_params import SamplingParams


class RequestFactory:
    """Gives requests their ids and seeds.

    Args:
        seed: what the seeds of requests that bring none are derived from; None: drawn anew.
    """

    def __init__(self, seed: int | None) -> None:
        self._ids = count()
        self._seeds = SeedSource(seed)

    def make(self, prompt: TokenizedPrompt, params: SamplingParams, *, priority: int, arrival_time: float) -> list[EngineRequest]:
        """One request a choice. The first bears the prompt's id and leads the others, which share the blocks of its prompt."""
        leader = str(next(self._ids))
        seed = self._seeds.draw() if params.seed is None else params.seed
        one = params if params.n == 1 else msgspec.structs.replace(params, n=1)
        return [
            EngineRequest(
                request_id=leader if index == 0 else f"{leader}.{index}",
                token_ids=prompt.token_ids,
                params=one,
                arrival_time=arrival_time,
                seed=choice_seed(seed, index),
                priority=priority,
                leader=None if index == 0 else leader,
            )
            for index in range(params.n)
        ]
