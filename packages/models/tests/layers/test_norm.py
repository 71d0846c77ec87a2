"""RMSNorm against torch's own in double precision."""

import pytest
import torch
from torch.nn import functional

from octavo_models.layers import RMSNorm


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-7)])
def test_equals_the_formula_in_double_precision(dtype: torch.dtype, tolerance: float) -> None:
    norm = RMSNorm(64, 1e-5, dtype=dtype)
    norm.weight.data.normal_(mean=1.0)
    x = (100 * torch.randn(7, 64)).to(dtype)
    expected = functional.rms_norm(x.double(), (64,), norm.weight.double(), 1e-5)
    result = norm(x)
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), expected, rtol=tolerance, atol=tolerance)


def test_sums_squares_that_overflow_half_precision() -> None:
    norm = RMSNorm(64, 1e-5, dtype=torch.float16)
    norm.weight.data.fill_(1.0)
    torch.testing.assert_close(norm(torch.full((1, 64), 6e4, dtype=torch.float16)), torch.ones(1, 64, dtype=torch.float16))


def test_a_row_of_zeros_stays_zero() -> None:
    norm = RMSNorm(8, 1e-5, dtype=torch.float32)
    norm.weight.data.fill_(1.0)
    assert not norm(torch.zeros(1, 8)).any()


def test_weights_may_be_told_from_an_offset() -> None:
    plain, told_from_one = RMSNorm(8, 1e-5, dtype=torch.float32), RMSNorm(8, 1e-5, dtype=torch.float32, offset=1.0)
    told_from_one.weight.data.normal_()
    plain.weight.data = told_from_one.weight + 1
    x = torch.randn(3, 8)
    assert torch.equal(told_from_one(x), plain(x))
