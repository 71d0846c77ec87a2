import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from octavo_models.sampling.uniforms import SEED_MASK, uniforms

GAMMA = 0x9E3779B97F4A7C15


def mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & SEED_MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & SEED_MASK
    return word ^ (word >> 31)


def reference(seed: int, index: int) -> float:
    state = mix((seed + GAMMA) & SEED_MASK)
    for _ in range(index + 1):
        state = (state + GAMMA) & SEED_MASK
    return (mix(state) >> 11) / 2**53


def draws(seeds: list[int], indices: list[int]) -> list[float]:
    numbers: list[float] = uniforms(np.array([seed & SEED_MASK for seed in seeds], dtype=np.uint64), np.array(indices)).tolist()
    return numbers


@given(st.lists(st.tuples(st.integers(-(2**63), 2**64 - 1), st.integers(0, 50)), min_size=1, max_size=5))
def test_numbers_are_those_of_splitmix64_one_by_one(pairs: list[tuple[int, int]]) -> None:
    seeds, indices = map(list, zip(*pairs, strict=True))
    assert draws(seeds, indices) == [reference(seed & SEED_MASK, index) for seed, index in pairs]


def test_the_mixing_function_is_the_published_one() -> None:
    # First output of SplitMix64 for seed 1234567, as published with the generator's reference code.
    assert mix((1234567 + GAMMA) & SEED_MASK) == 6457827717110365317


def test_numbers_of_one_seed_and_of_neighbouring_seeds_are_spread_evenly() -> None:
    for seeds, indices in ((np.full(4096, 7), np.arange(4096)), (np.arange(4096), np.zeros(4096, dtype=np.int64))):
        numbers = uniforms(seeds.astype(np.uint64), indices)
        assert ((numbers >= 0) & (numbers < 1)).all()
        counts = np.histogram(numbers, bins=16, range=(0, 1))[0]
        assert (((counts - 256) ** 2) / 256).sum() < 37.7  # chi-square of 15 degrees, one in a thousand
