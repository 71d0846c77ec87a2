import math
import statistics
from itertools import pairwise

import pytest

from octavo_server.bench.arrivals import arrival_offsets


def gaps(**values: object) -> list[float]:
    offsets = arrival_offsets(20_001, **values)  # type: ignore[arg-type]
    assert offsets[0] == 0
    return [after - before for before, after in pairwise(offsets)]


def test_poisson_gaps_have_the_mean_of_the_rate_and_spread_as_much() -> None:
    found = gaps(rate=4.0, arrival="poisson", seed=3)
    assert statistics.fmean(found) == pytest.approx(0.25, rel=0.03)
    assert statistics.pstdev(found) == pytest.approx(0.25, rel=0.05)
    assert sum(gap > 0.25 for gap in found) / len(found) == pytest.approx(math.exp(-1), rel=0.05)


@pytest.mark.parametrize("burstiness", [0.25, 4.0])
def test_burstiness_changes_the_spread_and_not_the_rate(burstiness: float) -> None:
    found = gaps(rate=4.0, arrival="poisson", burstiness=burstiness, seed=3)
    assert statistics.fmean(found) == pytest.approx(0.25, rel=0.05)
    assert statistics.pstdev(found) == pytest.approx(0.25 / math.sqrt(burstiness), rel=0.06)


def test_a_seed_repeats_arrivals_and_another_does_not() -> None:
    first, again, other = (arrival_offsets(50, rate=2, arrival="poisson", seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_constant_gaps() -> None:
    assert arrival_offsets(4, rate=2, arrival="constant") == [0, 0.5, 1.0, 1.5]


def test_an_infinite_rate_is_all_at_once() -> None:
    assert arrival_offsets(3, rate=math.inf, arrival="poisson") == [0, 0, 0]


def test_a_ramp_grows_evenly_to_the_rate() -> None:
    offsets = arrival_offsets(101, rate=10, arrival="constant", ramp_up_s=4)
    assert offsets == sorted(offsets)
    assert offsets[20] == pytest.approx(4)  # half of what 4 s of the full rate bring
    assert offsets[5] == pytest.approx(2)  # a quarter of that
    assert offsets[21] - offsets[20] == pytest.approx(0.1)
    assert offsets[100] == pytest.approx(12)
