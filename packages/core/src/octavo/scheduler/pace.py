"""How much a step may cost, so that full steps take as long as they should while the machine's speed drifts."""

from octavo.config.scheduler import SchedulerConfig

LEAST_BUDGET = 64
"""Below, a step is hardly faster."""
FULL_SHARE = 0.9
"""Steps that cost this share of the budget tell how long full ones take."""
CORRECTION_SHARE = 0.25
"""Of the difference between what a step says and what was thought before: single steps are noisy."""


class Pace:
    """The token budget of a step: that of the configuration, or less where full steps take longer than `step_time_s`.

    Attributes:
        budget: of the next step, in tokens.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.budget = config.max_num_batched_tokens
        self._most = config.max_num_batched_tokens
        self._step_time_s = config.step_time_s

    def observe(self, cost: int, seconds: float) -> None:
        """Learn from a step: what it cost of a budget, and how long it took; 0 where nobody knows."""
        if self._step_time_s is None or seconds <= 0 or cost < FULL_SHARE * self.budget:
            return
        fitting = cost * self._step_time_s / seconds
        budget = round(self.budget + CORRECTION_SHARE * (fitting - self.budget))
        self.budget = min(self._most, max(LEAST_BUDGET, budget))
