"""Counts of observations by size."""

from bisect import bisect_left
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Histogram:
    """Observations counted in buckets; they only grow.

    Attributes:
        bounds: upper ends of the buckets, ascending, each included; above the last there is one bucket more.
        counts: observations of each bucket, not accumulated.
        total: sum of all observations.
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)
        assert len(self.counts) == len(self.bounds) + 1, "there is one bucket more than bounds"

    def observe(self, value: float, count: int = 1) -> None:
        """Count a value, `count` times."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def copy(self) -> "Histogram":
        """The same counts, sharing nothing."""
        return Histogram(bounds=self.bounds, counts=list(self.counts), total=self.total)
