"""Results as a table for readers."""

import math
from collections.abc import Sequence
from dataclasses import fields

from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.result import LATENCIES, BenchmarkResult
from octavo_server.bench.statistics import Spread

_NAMES = {"ttft": "time to first token", "tpot": "time per output token", "itl": "between events", "e2el": "whole request"}
_MAX_ERRORS = 8
_WIDTH = 28
_COLUMNS = ("mean", "median", "p90", "p95", "p99", "max")


def report_lines(result: BenchmarkResult) -> list[str]:
    """What was asked, throughput, latency, the client itself and errors."""
    sections = [
        ("Asked", _rows(_asked(result))),
        ("Throughput", _rows(_throughput(result))),
        ("Latency (ms)" + " " * (_WIDTH + 2 - len("Latency (ms)")) + "".join(f"{column:>11}" for column in _COLUMNS), _latencies(result)),
        ("Client", _rows(_client(result))),
        ("Errors", _errors(result)),
        ("Notes", [f"  {note}" for note in _notes(result)]),
    ]
    return [line for title, lines in sections if lines for line in (title, *lines, "")][:-1]


def sweep_lines(results: Sequence[BenchmarkResult]) -> list[str]:
    """A line a rate."""
    header = ("rate", "requests/s", "goodput/s", "output tok/s", "TTFT mean", "TTFT p99", "TPOT mean", "TPOT p99", "E2E p99", "failed")
    lines = ["Sweep (latencies in ms)", "".join(f"{name:>13}" for name in header)]
    for result in results:
        cells = [
            _rate(result.config.request_rate),
            f"{result.request_throughput:,.2f}",
            "-" if result.goodput is None else f"{result.goodput:,.2f}",
            f"{result.output_throughput:,.1f}",
            *(_milliseconds(spread, column) for spread in (result.ttft, result.tpot) for column in ("mean", "p99")),
            _milliseconds(result.e2el, "p99"),
            f"{result.failed:,}",
        ]
        lines.append("".join(f"{cell:>13}" for cell in cells))
    return lines


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    return [f"  {name:{_WIDTH}} {value}" for name, value in rows]


def _asked(result: BenchmarkResult) -> list[tuple[str, str]]:
    config = result.config
    rows = [
        ("server", config.url),
        ("model", result.model),
        ("workload", _workload(config)),
        ("requests", f"{config.workload.num_prompts:,}, after {config.num_warm_ups} to warm up"),
        ("arrival", _arrival(config)),
        ("at once", "no limit" if config.max_concurrency is None else f"{config.max_concurrency:,} at most"),
    ]
    return [*rows, ("service level", str(config.service_level))] if config.service_level.is_set else rows


def _workload(config: BenchmarkConfig) -> str:
    workload = config.workload
    if workload.dataset is not None:
        return f"prompts of {workload.dataset}, seed {config.seed}"
    number, length = workload.shared_prefix
    spread = f" ± {workload.range_ratio:.0%}" if workload.range_ratio else ""
    prefix = f" behind {number:,} shared prefixes of {length:,}" if length else ""
    lengths = f"{workload.input_len:,}{spread} tokens in{prefix}, {workload.fixed_output_len:,}{spread} out"
    return f"{workload.kind}, {lengths}, seed {config.seed}"


def _arrival(config: BenchmarkConfig) -> str:
    ramp = f", growing for {config.ramp_up_s:g} s" if config.ramp_up_s else ""
    if math.isinf(config.request_rate):
        return f"all at once{ramp}"
    burstiness = f", burstiness {config.burstiness:g}" if config.arrival == "poisson" and config.burstiness != 1 else ""
    return f"{config.arrival}, {config.request_rate:g} requests/s{burstiness}{ramp}"


def _throughput(result: BenchmarkResult) -> list[tuple[str, str]]:
    unfinished = f", {result.unfinished:,} given up" if result.unfinished else ""
    cached = "" if result.cached_tokens is None else f" ({result.cached_tokens:,} from the prefix cache)"
    rows = [
        ("duration", f"{result.duration_s:,.2f} s"),
        ("completed", f"{result.completed:,}, {result.failed:,} failed{unfinished}"),
        ("requests/s", f"{result.request_throughput:,.2f}"),
        ("goodput requests/s", "" if result.goodput is None else f"{result.goodput:,.2f}"),
        ("input tokens", f"{result.input_tokens:,}{cached}, {result.input_throughput:,.1f}/s"),
        (
            "output tokens",
            f"{result.output_tokens:,}, {result.output_throughput:,.1f}/s, {result.peak_output_throughput:,.0f} in the best second",
        ),
        ("tokens an event", f"{result.output_tokens / result.num_events:.2f}" if result.num_events else ""),
        ("most at once", f"{result.peak_concurrency:,}"),
    ]
    return [(name, value) for name, value in rows if value]


def _latencies(result: BenchmarkResult) -> list[str]:
    lines = []
    for name in LATENCIES:
        label = f"{name.removesuffix('l').upper() if name == 'e2el' else name.upper()}: {_NAMES[name]}"
        lines.append(f"  {label:{_WIDTH}}" + "".join(f"{_milliseconds(getattr(result, name), column):>11}" for column in _COLUMNS))
    return lines


def _milliseconds(spread: Spread | None, column: str) -> str:
    assert column in {item.name for item in fields(Spread)}
    return "-" if spread is None else f"{getattr(spread, column) * 1e3:,.2f}"


def _client(result: BenchmarkResult) -> list[tuple[str, str]]:
    per_token = "" if result.cpu_us_per_token is None else f"{result.cpu_us_per_token:,.1f} µs an output token, "
    share = result.cpu_s / result.duration_s if result.duration_s else 0.0
    rows = [("CPU", f"{per_token}{share:.1%} of one core")]
    if result.send_delay is not None and not math.isinf(result.config.request_rate):
        rows.append(
            ("sent later than due", f"{result.send_delay.mean * 1e3:,.2f} ms in the mean, {result.send_delay.max * 1e3:,.2f} ms at most")
        )
    return rows


def _errors(result: BenchmarkResult) -> list[str]:
    lines = [f"  {count:>6,} x {error.kind}: {error.message}" for error, count in result.errors[:_MAX_ERRORS]]
    rest = sum(count for _, count in result.errors[_MAX_ERRORS:])
    return [*lines, f"  {rest:>6,} x others"] if rest else lines


def _notes(result: BenchmarkResult) -> list[str]:
    notes = list(result.notes)
    if result.num_counted_here:
        notes.append(f"{result.num_counted_here:,} answers came without usage: their tokens are counted from events")
    if result.unfinished:
        notes.append("the load was stopped before its end")
    return notes


def _rate(rate: float) -> str:
    return "inf" if math.isinf(rate) else f"{rate:g}"
