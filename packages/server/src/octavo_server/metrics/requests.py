"""What API processes observe of the requests that they serve."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Metric, disable_created_metrics, values
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from octavo_server.metrics import definitions as define
from octavo_server.metrics.batches import BatchHistogram, HistogramBuffer
from octavo_server.metrics.observation import RequestObservation
from octavo_server.metrics.series import ModelSeries


class RequestMetrics(Collector):
    """Histograms and counters of requests, for the event loop of one API process.

    With a folder they lie in mapped files there, and `collect` adds up those of all processes, ended ones included.

    Attributes:
        prefix: of every name.
        tenants: names that are shown from the start.
    """

    def __init__(
        self,
        *,
        prefix: str = define.DEFAULT_PREFIX,
        tenants: Iterable[str] = (),
        folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Define them all; series come with `open_model`, or the first request for a model.

        Args:
            prefix: of every name.
            tenants: names that are shown from the start.
            folder: where PROMETHEUS_MULTIPROC_DIR pointed when `prometheus_client` was imported; None where it was not set.
            clock: seconds; that of `RequestTimes`.

        Raises:
            ConfigurationError: no metric can have that prefix.
        """
        assert values.ValueClass._multiprocess == (folder is not None), "prometheus_client was imported before its folder was set"
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.prefix = define.check_prefix(prefix)
        self.tenants = tuple(tenants)
        self._folder = folder
        self._clock = clock
        self._registry = CollectorRegistry()
        self._histograms = {
            item.name: BatchHistogram(prefix + item.name, item.meaning, [define.MODEL_LABEL], registry=self._registry, buckets=item.buckets)
            for item in define.REQUEST_HISTOGRAMS
        }
        self._ends = Counter(
            f"{prefix}request_success", define.REQUEST_SUCCESS, [define.MODEL_LABEL, define.REASON_LABEL], registry=self._registry
        )
        self._tenant_ends = Counter(
            f"{prefix}tenant_requests",
            define.TENANT_REQUESTS,
            [define.MODEL_LABEL, define.TENANT_LABEL, define.REASON_LABEL],
            registry=self._registry,
        )
        self._models: dict[str, ModelSeries] = {}

    def request(self, tenant: str, model: str) -> RequestObservation:
        """Observe a request that has just arrived.

        Args:
            tenant: name of its key; "" without keys.
            model: the served name, one of few.
        """
        return RequestObservation(self.open_model(model), tenant, self._clock)

    def open_model(self, model: str) -> ModelSeries:
        """The series of a model, shown from now on."""
        series = self._models.get(model)
        if series is None:
            histograms = {name: histogram.labels(model) for name, histogram in self._histograms.items()}
            gaps = HistogramBuffer(histograms[define.INTER_TOKEN_LATENCY.name], define.INTER_TOKEN_LATENCY.buckets)
            series = self._models[model] = ModelSeries(model, histograms, gaps, self._ends, self._tenant_ends)
            for tenant in self.tenants:
                series.open_tenant(tenant)
        return series

    def flush(self) -> None:
        """Pass on what is held back to be counted in batches."""
        for series in self._models.values():
            series.gaps.flush()

    def collect(self) -> Iterator[Metric]:
        """Every metric, of all processes; callable in any thread."""
        if self._folder is None:
            yield from self._registry.collect()
        else:
            processes = MultiProcessCollector(CollectorRegistry(), path=str(self._folder))  # type: ignore[no-untyped-call]
            yield from processes.collect()  # type: ignore[no-untyped-call]
