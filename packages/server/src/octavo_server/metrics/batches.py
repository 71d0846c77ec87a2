"""A Prometheus histogram that takes many observations at once."""

from prometheus_client import Histogram

from octavo.metrics.histogram import Histogram as Counts

MOST_PENDING = 256
"""Observations after which a buffer is emptied."""


class BatchHistogram(Histogram):
    """Takes counts of buckets: one locked (and, between processes, mapped) write a bucket instead of two an observation."""

    def add(self, counts: Counts) -> None:
        """Add observations that were counted in this histogram's buckets."""
        assert len(counts.counts) == len(self._buckets), "the buckets are others"
        for bucket, count in zip(self._buckets, counts.counts, strict=True):
            if count:
                bucket.inc(count)
        self._sum.inc(counts.total)


class HistogramBuffer:
    """Collects observations of one series, for one thread, and passes them on in batches."""

    def __init__(self, series: BatchHistogram, buckets: tuple[float, ...]) -> None:
        self._series = series
        self._buckets = buckets
        self._pending = Counts(bounds=buckets)
        self._num_pending = 0

    def observe(self, value: float, count: int = 1) -> None:
        """Count a value, `count` times."""
        self._pending.observe(value, count)
        self._num_pending += count
        if self._num_pending >= MOST_PENDING:
            self.flush()

    def flush(self) -> None:
        """Pass on what has come together."""
        if self._num_pending:
            self._series.add(self._pending)
            self._pending = Counts(bounds=self._buckets)
            self._num_pending = 0
