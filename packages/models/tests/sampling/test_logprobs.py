import math

import numpy as np
import pytest
import torch

from octavo_models.sampling.logprobs import join_arrays, token_logprobs


def exact(row: list[float]) -> list[float]:
    """Log-softmax in plain Python."""
    largest = max(row)
    total = math.log(math.fsum(math.exp(value - largest) for value in row))
    return [value - largest - total for value in row]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("num_top", [0, 1, 3, 20])
@pytest.mark.parametrize("vocab_size", [97, 128, 1000, 3001])
def test_values_and_ranks_are_those_of_the_log_softmax(dtype: torch.dtype, num_top: int, vocab_size: int) -> None:
    logits = (4 * torch.randn(5, vocab_size, generator=torch.Generator().manual_seed(1))).to(dtype)
    logits[4, -num_top - 1 :] = 30.0 + torch.arange(num_top + 1)
    tokens = [3, 96, 0, 50, vocab_size - 1]
    arrays = token_logprobs(logits, torch.tensor(tokens), num_top)
    assert arrays.ids.shape == arrays.values.shape == (5, 1 + num_top)
    for row, token in enumerate(tokens):
        expected = exact(logits[row].tolist())
        largest = sorted(expected, reverse=True)[:num_top]
        assert arrays.ids[row, 0] == token
        assert arrays.ranks[row] == 1 + sum(value > expected[token] for value in expected)
        assert largest == pytest.approx(arrays.values[row, 1:].tolist(), abs=1e-5)
        assert [expected[candidate] for candidate in arrays.ids[row]] == pytest.approx(arrays.values[row].tolist(), abs=1e-5)


def test_each_row_gives_in_a_batch_what_it_gives_alone() -> None:
    logits = torch.randn(40, 50_000, generator=torch.Generator().manual_seed(2))
    tokens = torch.arange(40) * 7
    together = token_logprobs(logits, tokens, 4)
    alone = join_arrays([token_logprobs(logits[row : row + 1], tokens[row : row + 1], 4) for row in range(40)])
    for name in ("ids", "values", "ranks"):
        assert np.array_equal(getattr(together, name), getattr(alone, name))


def test_no_more_alternatives_than_tokens() -> None:
    arrays = token_logprobs(torch.zeros(1, 4), torch.tensor([2]), 20)
    assert arrays.ids.shape == (1, 5)
    assert arrays.ranks.tolist() == [1]


def test_rows_are_cut_out_with_as_many_alternatives_as_are_wanted() -> None:
    arrays = token_logprobs(torch.randn(4, 30), torch.tensor([1, 2, 3, 4]), 5)
    rows = arrays.rows(1, 3, 2)
    assert (len(rows), rows.num_top) == (2, 2)
    assert [(list(ids), rank) for ids, _, rank in rows.positions()] == [(arrays.ids[row, :3].tolist(), arrays.ranks[row]) for row in (1, 2)]
    assert rows.token_values() == arrays.values[1:3, 0].tolist()
