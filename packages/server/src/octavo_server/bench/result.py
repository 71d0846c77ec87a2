"""What a benchmark measured."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.load import LoadOutcome
from octavo_server.bench.record import RequestError, RequestRecord
from octavo_server.bench.statistics import Spread

LATENCIES = ("ttft", "tpot", "itl", "e2el")


@dataclass(frozen=True, kw_only=True)
class BenchmarkResult:
    """Numbers of one load; durations in seconds, rates a second. Failed requests count in `failed` and `errors` alone.

    Attributes:
        config: what was asked.
        model: name in requests.
        records: of every request that ended.
        duration_s: from the start of the load to the end of its last request.
        completed, failed, unfinished: requests; `unfinished` were given up when the load was stopped.
        input_tokens, output_tokens: of completed requests.
        cached_tokens: input tokens from the prefix cache; None where the server does not say.
        num_counted_here: completed requests whose tokens were counted from events, as no usage came.
        request_throughput, input_throughput, output_throughput: a second.
        peak_output_throughput: output tokens in the best second.
        goodput: requests a second that kept the service level; None where there is none.
        peak_concurrency: most requests under way at once.
        num_events: events with output.
        ttft, tpot, itl, e2el: None where no request has a value.
        send_delay: how much later than due requests were sent.
        errors: why requests failed, the most frequent first.
        cpu_s: processor time of the client.
        notes: what a reader should know.
    """

    config: BenchmarkConfig
    model: str
    records: tuple[RequestRecord, ...]
    duration_s: float
    completed: int
    failed: int
    unfinished: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int | None
    num_counted_here: int
    request_throughput: float
    input_throughput: float
    output_throughput: float
    peak_output_throughput: float
    goodput: float | None
    peak_concurrency: int
    num_events: int
    ttft: Spread | None
    tpot: Spread | None
    itl: Spread | None
    e2el: Spread | None
    send_delay: Spread | None
    errors: tuple[tuple[RequestError, int], ...]
    cpu_s: float
    notes: tuple[str, ...] = ()

    @property
    def cpu_us_per_token(self) -> float | None:
        """The client's processor time an output token, in microseconds."""
        return self.cpu_s / self.output_tokens * 1e6 if self.output_tokens else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: durations of latencies in milliseconds, names as other benchmarks of servers have them."""
        config, workload = self.config, self.config.workload
        summary: dict[str, Any] = {
            "base_url": config.base_url,
            "endpoint": config.endpoint,
            "model": self.model,
            "workload": workload.kind,
            "num_prompts": workload.num_prompts,
            "request_rate": "inf" if math.isinf(config.request_rate) else config.request_rate,
            "arrival": config.arrival,
            "burstiness": config.burstiness,
            "max_concurrency": config.max_concurrency,
            "seed": config.seed,
            "duration": self.duration_s,
            "completed": self.completed,
            "failed": self.failed,
            "unfinished": self.unfinished,
            "total_input_tokens": self.input_tokens,
            "total_output_tokens": self.output_tokens,
            "total_cached_tokens": self.cached_tokens,
            "request_throughput": self.request_throughput,
            "request_goodput": self.goodput,
            "input_throughput": self.input_throughput,
            "output_throughput": self.output_throughput,
            "total_token_throughput": self.input_throughput + self.output_throughput,
            "max_output_tokens_per_s": self.peak_output_throughput,
            "max_concurrent_requests": self.peak_concurrency,
        }
        for name in LATENCIES:
            summary |= _in_milliseconds(name, getattr(self, name))
        return summary | {
            "max_send_delay_ms": None if self.send_delay is None else self.send_delay.max * 1e3,
            "client_cpu_s": self.cpu_s,
            "client_cpu_us_per_output_token": self.cpu_us_per_token,
            "client_cpu_share": self.cpu_s / self.duration_s if self.duration_s else 0.0,
            "errors": [{"kind": error.kind, "message": error.message, "count": count} for error, count in self.errors],
            "notes": list(self.notes),
        }


def summarize(config: BenchmarkConfig, model: str, outcome: LoadOutcome, *, notes: tuple[str, ...] = ()) -> BenchmarkResult:
    """Turn what became of requests into numbers."""
    records, elapsed = outcome.records, outcome.elapsed_s
    done = [record for record in records if record.error is None]
    output_tokens = sum(record.output_tokens for record in done)
    input_tokens = sum(record.input_tokens for record in done)
    cached = [record.cached_tokens for record in done if record.cached_tokens is not None]
    kept = sum(map(config.service_level.is_met_by, done))
    return BenchmarkResult(
        config=config,
        model=model,
        records=records,
        duration_s=elapsed,
        completed=len(done),
        failed=len(records) - len(done),
        unfinished=outcome.num_unfinished,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=sum(cached) if cached else None,
        num_counted_here=sum(not record.has_usage for record in done),
        request_throughput=_a_second(len(done), elapsed),
        input_throughput=_a_second(input_tokens, elapsed),
        output_throughput=_a_second(output_tokens, elapsed),
        peak_output_throughput=_peak_throughput(done),
        goodput=_a_second(kept, elapsed) if config.service_level.is_set else None,
        peak_concurrency=outcome.peak_running,
        num_events=sum(record.num_events for record in done),
        ttft=_spread(record.ttft_s for record in done),
        tpot=_spread(record.tpot_s for record in done),
        itl=_spread(gap for record in done for gap in record.inter_token_s),
        e2el=_spread(record.e2e_s for record in done),
        # Timers may be a little early.
        send_delay=_spread(max(0.0, record.sent - record.due) for record in records),
        errors=tuple(Counter(record.error for record in records if record.error is not None).most_common()),
        cpu_s=outcome.cpu_s,
        notes=notes,
    )


def _a_second(count: int, elapsed_s: float) -> float:
    return count / elapsed_s if elapsed_s > 0 else 0.0


def _spread(values: Iterable[float | None]) -> Spread | None:
    return Spread.of([value for value in values if value is not None])


def _peak_throughput(done: list[RequestRecord]) -> float:
    """Output tokens in the best whole second of the load; tokens of a request are spread evenly over its events."""
    tokens: dict[int, float] = {}
    for record in done:
        if record.ttft_s is None or not record.num_events:
            continue
        moment = record.sent + record.ttft_s
        share = record.output_tokens / record.num_events
        for gap in (0.0, *record.inter_token_s):
            moment += gap
            tokens[int(moment)] = tokens.get(int(moment), 0.0) + share
    return max(tokens.values(), default=0.0)


def _in_milliseconds(name: str, spread: Spread | None) -> dict[str, float | None]:
    return {f"{item.name}_{name}_ms": None if spread is None else getattr(spread, item.name) * 1e3 for item in fields(Spread)}
