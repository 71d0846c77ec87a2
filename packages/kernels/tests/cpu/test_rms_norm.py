import pytest
import torch

from octavo_kernels.cpu.rms_norm import add_rms_norm, rms_norm
from octavo_kernels.reference import norm as reference

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def values(generator, *shape, dtype):
    return torch.randn(shape, generator=generator).mul(2).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 16, 72, 576, 577])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_equals_the_reference(library, generator, isa, dtype, width, offset):
    x, weight = values(generator, 5, width, dtype=dtype), values(generator, width, dtype=dtype)
    out = rms_norm(library, x, weight, 1e-5, offset=offset, isa=isa)
    torch.testing.assert_close(out, reference.rms_norm(x, weight, 1e-5, offset=offset))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_sum_with_the_residual_is_rounded_and_normed(library, generator, isa, dtype):
    x, residual = values(generator, 2, 4, 3, 40, dtype=dtype)
    weight = values(generator, 40, dtype=dtype)
    normed, total = add_rms_norm(library, x, residual, weight, 1e-5, offset=0.0, isa=isa)
    expected_normed, expected_total = reference.add_rms_norm(x, residual, weight, 1e-5)
    assert torch.equal(total, expected_total)
    torch.testing.assert_close(normed, expected_normed)


@pytest.mark.parametrize("view", ["rows", "heads", "columns", "four-dimensional"])
def test_views_are_read_as_they_lie(library, generator, isa, view):
    fused = values(generator, 6, 5, 24, dtype=torch.bfloat16)
    x = {"rows": fused[:, 1], "heads": fused[:, 1:4], "columns": fused[:, 0].t()[:, :4].t(), "four-dimensional": fused[None, :, 1:3]}[view]
    weight = values(generator, 24, dtype=torch.bfloat16)
    out = rms_norm(library, x, weight, 1e-6, offset=0.0, isa=isa)
    assert out.is_contiguous()
    torch.testing.assert_close(out, reference.rms_norm(x, weight, 1e-6))


def test_zeros_and_no_rows_are_fine(library, isa):
    weight = torch.ones(8)
    assert not rms_norm(library, torch.zeros(2, 8), weight, 1e-6, offset=0.0, isa=isa).any()
    assert rms_norm(library, torch.zeros(0, 8), weight, 1e-6, offset=0.0, isa=isa).shape == (0, 8)


def test_a_row_does_not_depend_on_the_others_nor_on_threads(library, generator, isa):
    x, weight = values(generator, 400, 300, dtype=torch.float32), values(generator, 300, dtype=torch.float32)
    alone = rms_norm(library, x[7:8], weight, 1e-5, offset=0.0, isa=isa)
    for threads in (1, 3):
        torch.set_num_threads(threads)
        assert torch.equal(rms_norm(library, x, weight, 1e-5, offset=0.0, isa=isa)[7:8], alone)


def test_nan_stays_in_its_row(library, generator, isa):
    x = values(generator, 3, 20, dtype=torch.bfloat16)
    x[1, 4] = float("nan")
    out = rms_norm(library, x, torch.ones(20, dtype=torch.bfloat16), 1e-5, offset=0.0, isa=isa)
    assert out[1].isnan().all()
    assert out[[0, 2]].isfinite().all()
