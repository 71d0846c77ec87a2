"""Steps that are run for their time alone; their KV is that of the null block."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import StepPlan
from octavo.types import NULL_BLOCK
from octavo_models.runner.memory_profile import largest_step


def greedy_step(num_tokens: int, num_requests: int, *, block_size: int, num_groups: int) -> StepPlan:
    """So many tokens of new requests, each of which draws the likeliest."""
    step = largest_step(
        max_tokens=num_tokens, max_requests=num_requests, max_model_len=num_tokens, block_size=block_size, num_groups=num_groups
    )
    return replace(step, added=[replace(request, params=SamplingParams(temperature=0)) for request in step.added])


def behind(step: StepPlan, context: int, block_size: int) -> StepPlan:
    """The same tokens, each request's behind others, of which there are whole blocks."""
    blocks = [NULL_BLOCK] * (context // block_size)
    added = [
        replace(
            request,
            token_ids=[0] * context + request.token_ids,
            num_prompt_tokens=context + request.num_prompt_tokens,
            num_computed_tokens=context,
            block_ids=[blocks + own for own in request.block_ids],
        )
        for request in step.added
    ]
    return replace(step, added=added)


def seconds_of(run: Callable[[StepPlan], object], step: StepPlan) -> float:
    """Of one run of a step; its requests are gone afterwards.

    Args:
        run: runs a plan; the batch is empty.
        step: to run.
    """
    start = time.perf_counter()
    run(step)
    seconds = time.perf_counter() - start
    run(replace(step, added=[], removed=list(step.num_tokens), num_tokens={}, num_output_tokens={}))
    return seconds
