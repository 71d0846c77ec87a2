"""Counters of an engine since its start, and a snapshot of where it stands."""

from dataclasses import dataclass, field

from octavo.metrics.histogram import Histogram
from octavo.types import FinishReason

STEP_TOKEN_BOUNDS = tuple(float(2**power) for power in range(15))
"""Upper ends of the buckets of tokens a step, 1 to 16,384."""


def step_token_histogram() -> Histogram:
    """An empty histogram of tokens a step."""
    return Histogram(bounds=STEP_TOKEN_BOUNDS)


@dataclass(kw_only=True)
class EngineCounters:
    """Totals since the start; they only grow.

    Attributes:
        steps: plans made, those that only remove requests included.
        prompt_tokens: of the prompts of first admissions, prefix hits included.
        prompt_tokens_computed: prompt tokens scheduled to be computed: without prefix hits, with what is recomputed after a preemption.
        generated_tokens: output tokens that requests gained.
        overrun_tokens: generated past the token that completed a stop string.
        preemptions: times a request gave its blocks back to be recomputed later.
        prefix_queries: prompt tokens of first admissions looked up in the prefix cache; 0 with the cache off.
        prefix_hits: those of them that were found.
        finished: requests by the reason they ended.
        forward_s, sample_s: seconds that the runner clocked.
        step_s: seconds that passed in steps, with all that belongs to one.
    """

    steps: int = 0
    prompt_tokens: int = 0
    prompt_tokens_computed: int = 0
    generated_tokens: int = 0
    overrun_tokens: int = 0
    preemptions: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    finished: dict[FinishReason, int] = field(default_factory=lambda: dict.fromkeys(FinishReason, 0))
    forward_s: float = 0.0
    sample_s: float = 0.0
    step_s: float = 0.0


@dataclass(kw_only=True)
class TenantUsage:
    """What the requests of one tenant took since the start; totals only grow. All but the block-seconds are counted as requests end.

    Attributes:
        prompt_tokens: of prompts, once for all continuations of one; a request that ended before it was first admitted counts none.
        cached_tokens: those of them that were found in the prefix cache.
        generated_tokens: output tokens, without those past a stop string.
        kv_block_seconds: blocks held times seconds, a shared block divided equally among the requests that hold it.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    kv_block_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class EngineStats:
    """A snapshot that shares nothing with the engine.

    Attributes:
        counters: totals at this moment.
        running: requests that hold blocks.
        waiting: requests that hold none, preempted ones and those behind a leader included.
        kv_usage: share of the pool's blocks in use, in [0, 1]; cached blocks that nobody uses are free.
        step_tokens: steps by the tokens that they ran, without those that only remove requests.
        tenants: usage by tenant.
    """

    counters: EngineCounters
    running: int
    waiting: int
    kv_usage: float
    step_tokens: Histogram = field(default_factory=step_token_histogram)
    tenants: dict[str, TenantUsage] = field(default_factory=dict)
