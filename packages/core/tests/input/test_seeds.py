from hypothesis import given
from hypothesis import strategies as st

from octavo.input.seeds import SeedSource, choice_seed
from octavo.sampling_params import MAX_CHOICES, SEED_LIMIT

seeds = st.integers(-SEED_LIMIT, SEED_LIMIT - 1)


@given(seeds)
def test_the_seeds_of_choices_are_distinct_and_the_first_is_the_prompts(seed: int) -> None:
    derived = [choice_seed(seed, index) for index in range(MAX_CHOICES)]
    assert derived[0] == seed
    assert len(set(derived)) == MAX_CHOICES
    assert all(0 <= value < SEED_LIMIT for value in derived[1:])


def test_the_mix_is_splitmix64() -> None:
    # First outputs of the reference implementation started at 0: 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F.
    assert [choice_seed(0, index) for index in (1, 2, 3)] == [0xE220A8397B1DCDAF >> 1, 0x6E789E6AA1B965F4 >> 1, 0x06C45D188009454F >> 1]


def test_a_source_with_a_seed_is_repeatable_and_one_without_is_not() -> None:
    assert [SeedSource(5).draw() for _ in range(2)] == [SeedSource(5).draw()] * 2
    assert SeedSource(None).draw() != SeedSource(None).draw()
