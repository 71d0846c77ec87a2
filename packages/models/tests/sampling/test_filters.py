import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_models.sampling.filters import BLOCK, least_kept, least_kept_by_sort


def naive(probabilities: list[float], floor: float, top_k: int, top_p: float) -> set[int]:
    """Token by token: those above the floor; of these the k likeliest; of these as many as reach top_p; equals of the last one stay."""
    kept = sorted((p for p in probabilities if p >= floor), reverse=True)
    kept = [p for p in kept if p >= kept[min(top_k, len(kept)) - 1]]
    if top_p < 1:
        mass, last = 0.0, 0.0
        for last in kept:
            mass += last
            if mass >= top_p * sum(kept):
                break
        kept = [p for p in kept if p >= last]
    return {token for token, p in enumerate(probabilities) if p >= kept[-1]}


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=30),
    st.integers(1, 31),
    st.sampled_from([0.05, 0.3, 0.5, 0.77, 0.9, 1.0]),
    st.sampled_from([0.0, 0.1, 0.51, 1.0]),
)
def test_keeps_what_the_definition_keeps(counts: list[int], top_k: int, top_p: float, min_p: float) -> None:
    top_p = float(np.float32(top_p))
    probabilities = torch.tensor([counts], dtype=torch.float32)
    floor = probabilities.amax(dim=1, keepdim=True) * min_p
    expected = naive([float(count) for count in counts], float(floor), top_k, top_p)
    for function in (least_kept, least_kept_by_sort):
        least = function(probabilities, floor, torch.tensor([top_k]), torch.tensor([top_p]))
        assert set((probabilities >= least)[0].nonzero().view(-1).tolist()) == expected


@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_a_nucleus_wider_than_the_head_is_found_too(spread: float) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 30 * BLOCK, generator=generator) * spread + torch.rand(3, 30 * BLOCK, generator=generator)
    probabilities = logits.softmax(dim=1)
    arguments = (probabilities, torch.zeros(3, 1), torch.full((3,), 30 * BLOCK), torch.tensor([0.95, 0.5, 1.0]))
    assert ((probabilities >= least_kept(*arguments)) == (probabilities >= least_kept_by_sort(*arguments))).all()
    assert (probabilities >= least_kept(*arguments))[0].sum() > 20 * BLOCK or spread > 0


def test_each_row_has_its_own_limits() -> None:
    probabilities = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).expand(3, 4).contiguous()
    least = least_kept(probabilities, torch.zeros(3, 1), torch.tensor([1, 3, 4]), torch.tensor([1.0, 1.0, 0.6]))
    assert (probabilities >= least).sum(dim=1).tolist() == [1, 3, 2]


def test_a_broken_row_does_not_stop_the_others() -> None:
    probabilities = torch.tensor([[0.5, float("nan"), 0.2], [0.5, 0.3, 0.2]])
    least = least_kept(probabilities, torch.zeros(2, 1), torch.tensor([3, 3]), torch.tensor([0.4, 0.4]))
    assert least[1] == 0.5
