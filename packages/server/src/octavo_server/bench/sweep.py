"""The same benchmark at several request rates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from octavo.errors import ConfigurationError, shown
from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.errors import BenchmarkError
from octavo_server.bench.result import BenchmarkResult

Run = Callable[[BenchmarkConfig], BenchmarkResult]


def parse_rates(text: str) -> list[float]:
    """Requests a second with commas, "inf" allowed. Raises `ConfigurationError`."""
    rates = []
    for part in text.split(","):
        try:
            rate = float(part)
        except ValueError:
            rate = 0.0
        if not rate > 0:
            raise ConfigurationError(f"sweep {shown(part)} is no rate: write requests a second as in 1,2,4,8 or inf")
        rates.append(rate)
    return rates


@dataclass(frozen=True)
class Sweep:
    """Results of some rates.

    Attributes:
        results: in the order of the rates.
        failures: a line for each rate at which every request failed.
        was_stopped: whether the last load, or what came after it, was interrupted.
    """

    results: list[BenchmarkResult]
    failures: list[str]
    was_stopped: bool = False


def run_sweep(config: BenchmarkConfig, rates: Sequence[float], run: Run) -> Sweep:
    """Run a benchmark for each rate, each with a seed of its own, so that none finds the prompts of another in the prefix cache.

    Raises:
        BenchmarkError: there is no result at all.
        KeyboardInterrupt: there is none yet.
    """
    results: list[BenchmarkResult] = []
    failures: list[str] = []
    for number, rate in enumerate(rates):
        try:
            results.append(run(replace(config, request_rate=rate, seed=config.seed + number)))
        except BenchmarkError as error:
            failures.append(f"at {rate:g} requests/s: {error}")
        except KeyboardInterrupt:
            if not results:
                raise
            return Sweep(results, failures, was_stopped=True)
        if results and results[-1].unfinished:
            return Sweep(results, failures, was_stopped=True)
    if not results:
        raise BenchmarkError(failures[0])
    return Sweep(results, failures)
