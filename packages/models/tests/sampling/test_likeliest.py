import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_models.sampling.likeliest import BLOCK, likeliest


@settings(deadline=None)
@given(st.integers(1, 4), st.sampled_from([1, 2, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 5]), st.integers(0, 10**6))
def test_finds_the_largest_logit_and_of_equals_the_lowest_id(rows: int, vocab_size: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(-4, 4, (rows, vocab_size), generator=generator).to(torch.bfloat16)
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert likeliest(logits).tolist() == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 600, 1299])
def test_a_row_with_nan_or_infinity_gives_minus_one_and_the_others_do_not(value: float, place: int) -> None:
    logits = torch.zeros(3, 1300)
    logits[:, 5] = 1
    logits[1, place] = value
    assert likeliest(logits).tolist() == [5, -1, 5]


def test_a_row_in_which_everything_is_forbidden_gives_minus_one() -> None:
    assert likeliest(torch.full((1, 600), float("-inf"))).tolist() == [-1]
