"""One uniform number a draw, from nothing but the request's seed and the index of the token.

There is no generator state, so a draw does not depend on what else is in the batch, on preemption or on where a request lies.

Source: SplitMix64 of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, with Stafford's
variant 13 as the mixing function. Number i of a seed is output i of the generator that starts at `mix(seed + gamma)`.
"""

import numpy as np
from numpy.typing import NDArray

SEED_MASK = 2**64 - 1
"""Seeds count modulo 2**64, negative ones too."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
_MANTISSA_STEP = 2.0**-53


def uniforms(seeds: NDArray[np.uint64], indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """seeds uint64 [R], indices of output tokens int64 [R] -> float64 [R], multiples of 2**-53 in [0, 1)."""
    start = _mix(seeds + _GAMMA)
    mixed = _mix(start + (indices.astype(np.uint64) + np.uint64(1)) * _GAMMA)
    return (mixed >> np.uint64(11)).astype(np.float64) * _MANTISSA_STEP


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of 64-bit words in which each input bit changes each output bit with probability about one half."""
    state = (state ^ (state >> np.uint64(30))) * _FIRST_FACTOR
    state = (state ^ (state >> np.uint64(27))) * _SECOND_FACTOR
    return state ^ (state >> np.uint64(31))
