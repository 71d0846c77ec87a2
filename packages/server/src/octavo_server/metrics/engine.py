"""What the engine tells of itself, as metrics of the moment: never added up over API processes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from octavo.metrics.histogram import Histogram
from octavo.metrics.stats import EngineStats, TenantUsage
from octavo_server.metrics.definitions import MODEL_LABEL, TENANT_LABEL


@dataclass(frozen=True)
class _Value:
    name: str
    meaning: str
    read: Callable[[EngineStats], float]


@dataclass(frozen=True)
class _TenantValue:
    name: str
    meaning: str
    read: Callable[[TenantUsage], float]


GAUGES = (
    _Value("num_requests_running", "Requests that hold memory and take part in steps; every choice is one.", lambda stats: stats.running),
    _Value("num_requests_waiting", "Requests that wait for memory or a place, preempted ones included.", lambda stats: stats.waiting),
    _Value("kv_cache_usage_perc", "Share of the KV cache's blocks that requests hold, 0 to 1.", lambda stats: stats.kv_usage),
)
COUNTERS = (
    _Value("prompt_tokens", "Tokens of prompts that were let in for the first time.", lambda stats: stats.counters.prompt_tokens),
    _Value("prompt_tokens_cached", "Those of them that the prefix cache had.", lambda stats: stats.counters.prefix_hits),
    _Value(
        "prompt_tokens_computed",
        "Tokens of prompts that steps computed, again after a preemption included.",
        lambda stats: stats.counters.prompt_tokens_computed,
    ),
    _Value("generation_tokens", "Output tokens.", lambda stats: stats.counters.generated_tokens),
    _Value("overrun_tokens", "Output tokens behind a stop string, which nobody got.", lambda stats: stats.counters.overrun_tokens),
    _Value("prefix_cache_queries", "Tokens of prompts looked up in the prefix cache.", lambda stats: stats.counters.prefix_queries),
    _Value("prefix_cache_hits", "Those of them that were found.", lambda stats: stats.counters.prefix_hits),
    _Value("num_preemptions", "Times that a request gave its memory back for others.", lambda stats: stats.counters.preemptions),
    _Value("engine_steps", "Steps of the engine.", lambda stats: stats.counters.steps),
    _Value("engine_step_seconds", "Time that passed in steps.", lambda stats: stats.counters.step_s),
    _Value("engine_forward_seconds", "Time in the model's forward pass.", lambda stats: stats.counters.forward_s),
    _Value("engine_sample_seconds", "Time in sampling.", lambda stats: stats.counters.sample_s),
)
STEP_TOKENS = ("iteration_tokens_total", "Tokens that a step ran, of prompts and of output together.")
TENANT_COUNTERS = (
    _TenantValue("tenant_prompt_tokens", "Tokens of a tenant's prompts, counted as requests end.", lambda usage: usage.prompt_tokens),
    _TenantValue("tenant_prompt_tokens_cached", "Those of them that the prefix cache had.", lambda usage: usage.cached_tokens),
    _TenantValue("tenant_generation_tokens", "Output tokens that a tenant's requests ended with.", lambda usage: usage.generated_tokens),
    _TenantValue(
        "tenant_kv_block_seconds",
        "Blocks of the KV cache that a tenant's requests held times seconds; a shared block is divided among its holders.",
        lambda usage: usage.kv_block_seconds,
    ),
)
ENGINE_UP = ("engine_up", "1 while there is an engine, 0 while it starts and once it is lost.")
CACHE_CONFIG = ("cache_config_info", "1; the labels say how the KV cache was set up.")


@dataclass(frozen=True, kw_only=True)
class EngineSnapshot:
    """An engine at the moment of a scrape.

    Attributes:
        model: the name that is served.
        stats: counters and load.
        cache_config: names and values of `cache_config_info`.
    """

    model: str
    stats: EngineStats
    cache_config: Mapping[str, str]


class EngineCollector(Collector):
    """Metrics of one snapshot.

    Args:
        prefix: of every name.
        is_up: whether there is an engine.
        snapshot: None where the engine did not answer; then only `engine_up` is told.
        tenants: that are shown even if the engine has not seen them.
    """

    def __init__(self, prefix: str, *, is_up: bool, snapshot: EngineSnapshot | None, tenants: Iterable[str] = ()) -> None:
        self._prefix = prefix
        self._is_up = is_up
        self._snapshot = snapshot
        self._tenants = tenants

    def collect(self) -> Iterator[Metric]:
        name, meaning = ENGINE_UP
        yield GaugeMetricFamily(self._prefix + name, meaning, value=float(self._is_up))
        if self._snapshot is not None:
            yield from self._engine(self._snapshot)
            yield from self._tenant_counters(self._snapshot)
            yield self._cache_config(self._snapshot)

    def _engine(self, snapshot: EngineSnapshot) -> Iterator[Metric]:
        labels = [snapshot.model]
        for value in GAUGES:
            gauge = GaugeMetricFamily(self._prefix + value.name, value.meaning, labels=[MODEL_LABEL])
            gauge.add_metric(labels, value.read(snapshot.stats))
            yield gauge
        for value in COUNTERS:
            counter = CounterMetricFamily(self._prefix + value.name, value.meaning, labels=[MODEL_LABEL])
            counter.add_metric(labels, value.read(snapshot.stats))
            yield counter
        name, meaning = STEP_TOKENS
        histogram = HistogramMetricFamily(self._prefix + name, meaning, labels=[MODEL_LABEL])
        histogram.add_metric(labels, _buckets(snapshot.stats.step_tokens), snapshot.stats.step_tokens.total)
        yield histogram

    def _tenant_counters(self, snapshot: EngineSnapshot) -> Iterator[Metric]:
        usage = {tenant: TenantUsage() for tenant in self._tenants} | snapshot.stats.tenants
        for value in TENANT_COUNTERS:
            counter = CounterMetricFamily(self._prefix + value.name, value.meaning, labels=[MODEL_LABEL, TENANT_LABEL])
            for tenant, amounts in usage.items():
                counter.add_metric([snapshot.model, tenant], value.read(amounts))
            yield counter

    def _cache_config(self, snapshot: EngineSnapshot) -> Metric:
        name, meaning = CACHE_CONFIG
        info = GaugeMetricFamily(self._prefix + name, meaning, labels=[MODEL_LABEL, *snapshot.cache_config])
        info.add_metric([snapshot.model, *snapshot.cache_config.values()], 1.0)
        return info


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Upper ends and accumulated counts."""
    ends = [*map(str, histogram.bounds), "+Inf"]
    return list(zip(ends, map(float, accumulate(histogram.counts)), strict=True))
