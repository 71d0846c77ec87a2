"""Where the draws of a request start."""

import random

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


class SeedSource:
    """Seeds for requests that bring none.

    Args:
        seed: makes the series of seeds repeatable; None starts it anew from the operating system.
    """

    def __init__(self, seed: int | None) -> None:
        self._random = random.Random(seed)  # noqa: S311 (sampling, not secrets)

    def draw(self) -> int:
        """The next seed, in [0, 2**63)."""
        return self._random.getrandbits(63)


def choice_seed(seed: int, index: int) -> int:
    """Seed of one of the `n` choices of a prompt: choice 0 keeps the prompt's seed, so it equals what `n=1` gives.

    The others take the `index`-th output of SplitMix64 (Steele, Lea and Flood 2014) started at `seed`, without its lowest bit,
    which is in [0, 2**63).
    """
    if index == 0:
        return seed
    mixed = (seed + index * _GOLDEN_GAMMA) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return (mixed ^ (mixed >> 31)) >> 1
