import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_models.sampling.draw import BLOCK, draw, padded_width

LAST_BELOW_ONE = 1 - 2**-53


@settings(deadline=None)
@given(st.integers(1, 3), st.integers(1, 3 * BLOCK), st.integers(0, 10**6))
def test_draws_by_the_inverse_of_the_distribution_function(rows: int, vocab_size: int, seed: int) -> None:
    # Small integers as weights, so that every sum is exact.
    generator = np.random.default_rng(seed)
    weights = np.zeros((rows, padded_width(vocab_size)), dtype=np.float32)
    weights[:, :vocab_size] = generator.integers(0, 4, (rows, vocab_size))
    weights[:, 0] += 1
    numbers = generator.random(rows)
    expected = [
        int(np.searchsorted(row.cumsum(dtype=np.float64), row.sum() * u, side="right")) for row, u in zip(weights, numbers, strict=True)
    ]
    assert draw(torch.from_numpy(weights), torch.from_numpy(numbers)).tolist() == expected


def test_both_ends_of_the_interval_hit_tokens_that_have_weight() -> None:
    weights = torch.zeros(2, 4 * BLOCK)
    weights[:, 2 * BLOCK + 9] = 0.1
    weights[:, 2 * BLOCK + 11] = 0.7
    assert draw(weights, torch.tensor([0.0, LAST_BELOW_ONE], dtype=torch.float64)).tolist() == [2 * BLOCK + 9, 2 * BLOCK + 11]


def test_rows_without_a_positive_sum_give_minus_one() -> None:
    weights = torch.ones(3, BLOCK)
    weights[1, 17] = float("nan")
    weights[2] = 0
    assert draw(weights, torch.full((3,), 0.5, dtype=torch.float64)).tolist() == [BLOCK // 2, -1, -1]
