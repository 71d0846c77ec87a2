"""How many tokens a step may have so that it takes about as long as it should."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from octavo.config.engine import Decision
from octavo.config.scheduler import SchedulerConfig
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import StepPlan
from octavo_models.runner.memory_profile import largest_step

TRIAL_TOKENS = 128
TIMED_RUNS = 2


def measure_budget(
    run: Callable[[StepPlan], object], config: SchedulerConfig, *, max_model_len: int, block_size: int, num_groups: int
) -> Decision:
    """The token budget of a step, from the time that a prompt of 128 tokens takes, after one run to warm up.

    Time grows with the tokens, as it does on a CPU. The budget is a multiple of the block, at least 128 and what one token for each
    request takes, at most the budget that is configured.

    Args:
        run: runs a plan; the batch is empty, and is left empty.
        config: with `step_time_s`, the seconds that a full step may take.
        max_model_len: longest prompt.
        block_size: S.
        num_groups: of KV.
    """
    assert config.step_time_s is not None
    num_tokens = min(TRIAL_TOKENS, config.max_num_batched_tokens, max_model_len)
    step = largest_step(max_tokens=num_tokens, max_requests=1, max_model_len=num_tokens, block_size=block_size, num_groups=num_groups)
    prompt = replace(step, added=[replace(request, params=SamplingParams(temperature=0)) for request in step.added])
    seconds = min([_seconds(run, prompt) for _ in range(1 + TIMED_RUNS)][1:])
    affordable = int(config.step_time_s / seconds * num_tokens) // block_size * block_size
    least = max(TRIAL_TOKENS, config.max_num_seqs)
    budget = min(max(affordable, least), config.max_num_batched_tokens)
    reason = f"{num_tokens} tokens take {seconds * 1000:.0f} ms, and a full step about {config.step_time_s * 1000:.0f} ms"
    if budget != affordable:
        reason += f" with {affordable:,}; it is between {least:,} and {config.max_num_batched_tokens:,}"
    return Decision(name="max_num_batched_tokens", value=str(budget), reason=reason)


def _seconds(run: Callable[[StepPlan], object], prompt: StepPlan) -> float:
    """Of one run; the request is gone afterwards."""
    start = time.perf_counter()
    run(prompt)
    seconds = time.perf_counter() - start
    run(replace(prompt, added=[], removed=list(prompt.num_tokens), num_tokens={}, num_output_tokens={}))
    return seconds
