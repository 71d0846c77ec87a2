import pytest
import torch

from octavo_kernels.reference import sampling

LOGITS = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()


def kept(logits):
    return logits.isfinite()[0].tolist()


@pytest.mark.parametrize(("k", "expected"), [(1, 1), (3, 3), (4, 4), (9, 4)])
def test_top_k_keeps_the_likeliest(k, expected):
    assert kept(sampling.keep_top_k(LOGITS, torch.tensor([k]))) == [index < expected for index in range(4)]


@pytest.mark.parametrize(("p", "expected"), [(0.01, 1), (0.5, 1), (0.6, 2), (0.9, 3), (1.0, 4)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(p, expected):
    assert kept(sampling.keep_top_p(LOGITS, torch.tensor([p]))) == [index < expected for index in range(4)]


@pytest.mark.parametrize(("p", "expected"), [(0.0, 4), (0.2, 3), (0.5, 2), (1.0, 1)])
def test_min_p_is_a_share_of_the_likeliest(p, expected):
    assert kept(sampling.keep_min_p(LOGITS, torch.tensor([p]))) == [index < expected for index in range(4)]


def test_equals_of_the_last_one_kept_are_kept():
    logits = torch.tensor([[1.0, 2.0, 1.0, 0.0]])
    assert kept(sampling.keep_top_k(logits, torch.tensor([2]))) == [True, True, True, False]
    assert kept(sampling.keep_top_p(logits, torch.tensor([0.6]))) == [True, True, True, False]


def test_penalties_follow_their_formulas():
    logits = torch.tensor([[2.0, -2.0, 2.0, 2.0]])
    counts = torch.tensor([[0, 0, 1, 3]])
    seen = torch.tensor([[True, True, True, False]])
    out = sampling.apply_penalties(logits, counts, seen, torch.tensor([0.5]), torch.tensor([0.25]), torch.tensor([2.0]))
    assert out.tolist() == [[1.0, -4.0, 1.0 - 0.25 - 0.5, 2.0 - 0.75 - 0.5]]


def test_temperature_divides():
    assert torch.equal(sampling.apply_temperature(LOGITS, torch.tensor([2.0])), LOGITS / 2)


def test_draws_invert_the_distribution():
    uniforms = torch.tensor([0.0, 0.49, 0.51, 0.79, 0.81, 0.96, 0.999999], dtype=torch.float64)
    assert sampling.draw(LOGITS.expand(7, 4), uniforms).tolist() == [0, 0, 1, 1, 2, 3, 3]


def test_filtered_tokens_are_never_drawn():
    logits = torch.tensor([[-torch.inf, 1.0, -torch.inf]])
    for uniform in (0.0, 0.5, 1 - 2**-53):
        assert sampling.draw(logits, torch.tensor([uniform], dtype=torch.float64)).tolist() == [1]
