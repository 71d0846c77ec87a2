import random

import numpy as np
import pytest

from octavo_server.bench.statistics import Spread, percentile


def test_percentiles_are_those_of_numpy() -> None:
    values = [random.Random(5).expovariate(3) for _ in range(977)]
    spread = Spread.of(values)
    assert spread is not None
    expected = [np.mean(values), np.std(values), *np.percentile(values, [50, 90, 95, 99]), max(values)]
    assert [spread.mean, spread.std, spread.median, spread.p90, spread.p95, spread.p99, spread.max] == pytest.approx(expected)


def test_known_values() -> None:
    assert percentile([1, 2, 3, 4], 50) == 2.5
    assert percentile([1, 2, 3, 4], 100) == 4
    assert percentile([10, 20], 90) == 19
    assert percentile([7], 99) == 7


def test_nothing_has_no_spread() -> None:
    assert Spread.of([]) is None
