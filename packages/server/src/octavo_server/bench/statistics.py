"""Mean and percentiles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How some values, such as durations in seconds, are spread."""

    mean: float
    std: float
    median: float
    p90: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """None where there are no values. `std` is that of the values themselves, not an estimate for others."""
        if not values:
            return None
        ordered = sorted(values)
        mean = math.fsum(ordered) / len(ordered)
        return cls(
            mean=mean,
            std=math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / len(ordered)),
            median=percentile(ordered, 50),
            p90=percentile(ordered, 90),
            p95=percentile(ordered, 95),
            p99=percentile(ordered, 99),
            max=ordered[-1],
        )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value below which so many percent of sorted values lie, on a straight line between its neighbours."""
    position = (len(ordered) - 1) * percent / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
