"""When requests are sent."""

import math
import random
from itertools import accumulate


def arrival_offsets(
    count: int, *, rate: float, arrival: str, burstiness: float = 1.0, ramp_up_s: float = 0.0, seed: int = 0
) -> list[float]:
    """Seconds after the start at which each request is due, the first at 0.

    Gaps are drawn for a rate of one and stretched, so a ramp changes when requests come and not how they cluster.

    Args:
        count: requests.
        rate: requests a second, once the ramp is over; infinite: all at once.
        arrival: "poisson", or "constant" gaps.
        burstiness: shape of the gamma distribution that gaps of "poisson" come from: 1 is Poisson, below it is burstier, above more even.
        ramp_up_s: the rate grows linearly from 0 for so long.
        seed: of the gaps.
    """
    if math.isinf(rate):
        return [0.0] * count
    source = random.Random(f"{seed} arrivals")  # noqa: S311 - a workload, not a secret
    gaps = [1.0 if arrival == "constant" else source.gammavariate(burstiness, 1.0 / burstiness) for _ in range(count - 1)]
    return [_stretch(expected, rate, ramp_up_s) for expected in accumulate(gaps, initial=0.0)]


def _stretch(expected: float, rate: float, ramp_up_s: float) -> float:
    """The moment by which `expected` requests are due: the inverse of the rate's integral."""
    during_ramp = rate * ramp_up_s / 2
    if expected < during_ramp:
        return math.sqrt(2 * expected * ramp_up_s / rate)
    return ramp_up_s + (expected - during_ramp) / rate
