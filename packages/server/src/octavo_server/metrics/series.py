"""The series of one model, resolved once."""

from collections.abc import Mapping

from prometheus_client import Counter, Histogram

from octavo.types import FinishReason
from octavo_server.metrics.batches import HistogramBuffer
from octavo_server.metrics.definitions import HistogramDefinition


class ModelSeries:
    """What requests for one model are counted in. For one thread.

    Attributes:
        gaps: between tokens; the one that is observed for every token, and therefore in batches.
    """

    def __init__(self, model: str, histograms: Mapping[str, Histogram], gaps: HistogramBuffer, ends: Counter, tenant_ends: Counter) -> None:
        """`histograms` are of this model, by name; the counters have labels for model (and tenant) and reason."""
        self.gaps = gaps
        self._model = model
        self._histograms = histograms
        self._tenant_ends = tenant_ends
        self._ends_by_reason = {reason: ends.labels(model, reason) for reason in FinishReason}
        self._ends_by_tenant: dict[str, dict[FinishReason, Counter]] = {}

    def open_tenant(self, tenant: str) -> dict[FinishReason, Counter]:
        """Show a tenant's counters from now on."""
        counters = self._ends_by_tenant.get(tenant)
        if counters is None:
            counters = {reason: self._tenant_ends.labels(self._model, tenant, reason) for reason in FinishReason}
            self._ends_by_tenant[tenant] = counters
        return counters

    def observe(self, definition: HistogramDefinition, value: float) -> None:
        """Count a value once."""
        self._histograms[definition.name].observe(value)

    def count(self, tenant: str, reason: FinishReason) -> None:
        """Count a request that ended."""
        self._ends_by_reason[reason].inc()
        self.open_tenant(tenant)[reason].inc()
