"""The scheduler's part of the configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """Limits of one step.

    Attributes:
        max_num_seqs: requests in a step at most.
        max_num_batched_tokens: token budget of a step.
        long_prefill_token_threshold: most tokens of one prompt in a step; 0 is no limit.
        policy: name in the registry of scheduler policies.
        step_time_s: seconds that a full step should take: the runner measures how many tokens that are, and the budget is lowered to
            them when it has started, and steps that take longer lower it further. None: the budget is as it stands.
        context_scale: context in tokens behind which a token of a prompt takes twice as long, and counts twice; 0: all count alike.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    long_prefill_token_threshold: int = 0
    policy: str = "fcfs"
    step_time_s: float | None = None
    context_scale: int = 0

    @property
    def max_chunk(self) -> int:
        """Tokens of one request that a step runs at most."""
        return min(self.long_prefill_token_threshold or self.max_num_batched_tokens, self.max_num_batched_tokens)
