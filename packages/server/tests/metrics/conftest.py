"""What tests of metrics need: a clock, metrics and samples by name."""

from collections.abc import Callable, Mapping

import pytest

from octavo_server.metrics.requests import RequestMetrics

Samples = Callable[..., float | None]


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> RequestMetrics:
    return RequestMetrics(tenants=("known",), clock=clock)


@pytest.fixture
def sample(metrics: RequestMetrics) -> Samples:
    """Value of a sample of `metrics` by its name without prefix and by its labels; None where there is none."""

    def value(name: str, labels: Mapping[str, str] | None = None, /, **more: str) -> float | None:
        metrics.flush()
        wanted = {"model_name": "m", **(labels or {}), **more}
        for metric in metrics.collect():
            for found in metric.samples:
                if found.name == f"octavo:{name}" and found.labels == wanted:
                    return found.value
        return None

    return value
