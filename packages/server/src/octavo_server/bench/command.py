"""`octavo bench serve`: load on a server that speaks OpenAI's API, and what it stands."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from octavo.errors import ConfigurationError
from octavo_server.bench.errors import BenchmarkError
from octavo_server.bench.flags import BenchmarkFlags, with_benchmark_flags

if TYPE_CHECKING:
    from octavo_server.bench.config import BenchmarkConfig
    from octavo_server.bench.result import BenchmarkResult
    from octavo_server.bench.sweep import Sweep

_INTERRUPTED = 130


@with_benchmark_flags
def bench_serve(flags: BenchmarkFlags) -> None:
    """Put load on a server that speaks OpenAI's API, and measure throughput and latency.

    The server may be Octavo or any other. Requests are streamed. Ctrl-C ends the load and prints what there is.
    """
    from octavo_server.bench.sweep import parse_rates
    from octavo_server.open_files import allow_connections

    config = flags.as_config()
    rates = None if flags.sweep is None else parse_rates(flags.sweep)
    _check_files(flags)
    allow_connections(min(config.workload.num_prompts, config.max_concurrency or config.workload.num_prompts))
    if rates is None:
        results = [_run(config)]
        was_stopped = results[0].unfinished > 0
    else:
        sweep = _sweep(config, rates, flags)
        results, was_stopped = sweep.results, sweep.was_stopped
    _print(results, flags)
    if flags.save is not None:
        saved = [_with_requests(result) for result in results]
        _write(flags.save, json.dumps({"sweep": saved} if flags.sweep else saved[0]))
    if was_stopped:
        raise typer.Exit(_INTERRUPTED)


def _run(config: "BenchmarkConfig") -> "BenchmarkResult":
    from octavo_server.bench.progress import ProgressLine
    from octavo_server.bench.run import run_benchmark

    with ProgressLine() as progress:
        return run_benchmark(config, on_progress=progress, stop_on_interrupt=True)


def _sweep(config: "BenchmarkConfig", rates: list[float], flags: BenchmarkFlags) -> "Sweep":
    from octavo_server.bench.plot import plot_sweep
    from octavo_server.bench.sweep import run_sweep

    sweep = run_sweep(config, rates, _run)
    for failure in sweep.failures:
        typer.echo(f"octavo: note: {failure}", err=True)
    if flags.plot is not None:
        _write(flags.plot, plot_sweep(sweep.results))
    return sweep


def _print(results: "list[BenchmarkResult]", flags: BenchmarkFlags) -> None:
    from octavo_server.bench.report import report_lines, sweep_lines

    if flags.as_json:
        summaries = [result.as_dict() for result in results]
        typer.echo(json.dumps({"sweep": summaries} if flags.sweep else summaries[0]))
        return
    for result in results:
        typer.echo("\n".join(report_lines(result)) + "\n")
    if flags.sweep:
        typer.echo("\n".join(sweep_lines(results)))


def _with_requests(result: "BenchmarkResult") -> dict[str, Any]:
    """The summary and a line a request; times in seconds since the load began, latencies in milliseconds."""
    requests = [
        {
            "due": record.due,
            "sent": record.sent,
            "ended": record.ended,
            "input_tokens": record.input_tokens,
            "output_tokens": record.output_tokens,
            "cached_tokens": record.cached_tokens,
            "ttft_ms": None if record.ttft_s is None else record.ttft_s * 1e3,
            "e2el_ms": None if record.e2e_s is None else record.e2e_s * 1e3,
            "itl_ms": [round(gap * 1e3, 3) for gap in record.inter_token_s],
            "error": None if record.error is None else f"{record.error.kind}: {record.error.message}",
        }
        for record in result.records
    ]
    return result.as_dict() | {"requests": requests}


def _check_files(flags: BenchmarkFlags) -> None:
    """Refuse before the load what could not be written after it."""
    if flags.plot is not None and flags.sweep is None:
        raise ConfigurationError(f"--plot {flags.plot} draws a sweep: give its rates with --sweep, such as --sweep 1,2,4,8")
    if flags.plot is not None and flags.plot.suffix.lower() != ".svg":
        raise ConfigurationError(f"--plot {flags.plot} is no SVG file: give a name that ends in .svg, which browsers show and convert")
    for name, path in (("--plot", flags.plot), ("--save", flags.save)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise ConfigurationError(f"{name} {path} cannot be written: give a file in a folder that is there")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BenchmarkError(f"{path} cannot be written: {error.strerror}") from error
