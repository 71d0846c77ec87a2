"""How many tokens a step may have so that it takes about as long as it should."""

from collections.abc import Callable
from dataclasses import dataclass

from octavo.config.engine import Decision
from octavo.config.scheduler import SchedulerConfig
from octavo.scheduler.plan import StepPlan
from octavo_models.runner.trial import behind, greedy_step, seconds_of

TRIAL_TOKENS = 128
TRIAL_CONTEXT = 2048
LEAST_CONTEXT = 256
"""Behind fewer tokens the difference is too small to be measured."""
TIMED_RUNS = 2


@dataclass(frozen=True)
class StepBudget:
    """`SchedulerConfig.max_num_batched_tokens` and `context_scale` as measured, with the reasons."""

    max_num_batched_tokens: int
    context_scale: int
    decisions: tuple[Decision, ...]


def measure_budget(
    run: Callable[[StepPlan], object], config: SchedulerConfig, *, max_model_len: int, block_size: int, num_groups: int
) -> StepBudget:
    """The token budget of a step to begin with, from the time that a prompt of 128 tokens takes, after one run to warm up; and what a
    context costs, from the time that they take behind 2,048 others.

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
    prompt = greedy_step(num_tokens, 1, block_size=block_size, num_groups=num_groups)
    seconds = min([seconds_of(run, prompt) for _ in range(1 + TIMED_RUNS)][1:])
    affordable = int(config.step_time_s / seconds * num_tokens) // block_size * block_size
    least = max(TRIAL_TOKENS, config.max_num_seqs)
    budget = min(max(affordable, least), config.max_num_batched_tokens)
    reason = f"{num_tokens} tokens take {seconds * 1000:.0f} ms, and a full step about {config.step_time_s * 1000:.0f} ms"
    if budget != affordable:
        reason += f" with {affordable:,}; it is between {least:,} and {config.max_num_batched_tokens:,}"
    decision = Decision(name="max_num_batched_tokens", value=str(budget), reason=reason)
    context = min(TRIAL_CONTEXT, max_model_len - num_tokens) // block_size * block_size
    if context < LEAST_CONTEXT:
        return StepBudget(budget, 0, (decision,))
    later = min(seconds_of(run, behind(prompt, context, block_size)) for _ in range(TIMED_RUNS))
    # seconds * (1 + context / scale) = later
    scale = max(1, round(context * seconds / max(later - seconds, seconds / 100)))
    reason = f"{num_tokens} tokens behind {context:,} others take {later * 1000:.0f} ms"
    return StepBudget(budget, scale, (decision, Decision(name="context_scale", value=str(scale), reason=reason)))
