"""Linear layers in C++ against their definition, and one row against the same row in any company."""

import pytest
import torch

from octavo_kernels.cpu import linear as cpu
from octavo_kernels.cpu.isa import Isa, supported_isas
from octavo_kernels.reference import linear as reference

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
SHAPES = [(1, 1), (7, 5), (64, 32), (65, 33), (100, 300), (576, 96), (2100, 40)]
"""Inputs and outputs: whole panels and not, and more inputs than are widened at once."""
ROWS = [1, 2, 3, 6, 13, 14, 15, 29, 64, 300]


def layer(generator, num_inputs, num_outputs, dtype):
    weight = torch.randn(num_outputs, num_inputs, generator=generator).div(num_inputs**0.5).to(dtype)
    return weight, torch.randn(num_outputs, generator=generator).to(dtype)


def check(result, expected, dtype):
    torch.testing.assert_close(result, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def multiply(library, x, packed, bias, num_outputs, isa, residual=None):
    out = torch.full((len(x), num_outputs), torch.nan, dtype=x.dtype)
    cpu.linear(library, x, packed, bias, out, residual=residual, isa=isa)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_inputs", "num_outputs"), SHAPES)
def test_equals_the_reference_and_a_row_has_the_same_bits_in_any_batch(library, generator, isa, dtype, num_inputs, num_outputs):
    weight, bias = layer(generator, num_inputs, num_outputs, dtype)
    packed = cpu.pack(library, weight, isa=isa)
    x = torch.randn(ROWS[-1], num_inputs, generator=generator).to(dtype)
    whole = multiply(library, x, packed, bias, num_outputs, isa)
    check(whole, reference.linear(x, weight, bias), dtype)
    for rows in ROWS[:-1]:
        assert torch.equal(multiply(library, x[-rows:], packed, bias, num_outputs, isa), whole[-rows:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num_threads", [2, 5, 64])
def test_threads_do_not_change_a_bit(library, generator, isa, dtype, num_threads):
    weight, bias = layer(generator, 300, 1000, dtype)
    packed = cpu.pack(library, weight, isa=isa)
    x = torch.randn(70, 300, generator=generator).to(dtype)
    alone = multiply(library, x, packed, bias, 1000, isa), cpu.linear_largest(library, x, packed, bias, 1000, isa=isa)
    torch.set_num_threads(num_threads)
    assert torch.equal(cpu.pack(library, weight, isa=isa), packed)
    assert torch.equal(multiply(library, x, packed, bias, 1000, isa), alone[0])
    assert torch.equal(cpu.linear_largest(library, x, packed, bias, 1000, isa=isa), alone[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 20])
def test_a_residual_is_added_before_rounding_and_may_be_the_output(library, generator, isa, dtype, rows):
    weight, bias = layer(generator, 70, 50, dtype)
    packed = cpu.pack(library, weight, isa=isa)
    x, residual = torch.randn(rows, 70, generator=generator).to(dtype), torch.randn(rows, 50, generator=generator).to(dtype)
    expected = reference.linear(x, weight, bias, residual)
    kept = residual.clone()
    check(multiply(library, x, packed, bias, 50, isa, residual), expected, dtype)
    assert torch.equal(residual, kept)
    cpu.linear(library, x, packed, bias, residual, residual=residual, isa=isa)
    check(residual, expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("width", [1, 16, 37, 64])
@pytest.mark.parametrize("has_bias", [False, True])
def test_gates_are_fused(library, generator, isa, dtype, activation, width, has_bias):
    weight, bias = layer(generator, 90, 2 * width, dtype)
    bias = bias if has_bias else None
    packed = cpu.pack(library, weight, gated=True, isa=isa)
    for rows in (1, 5, 40):
        x = torch.randn(rows, 90, generator=generator).to(dtype)
        out = torch.empty(rows, width, dtype=dtype)
        cpu.linear_gated(library, x, packed, bias, out, activation, isa=isa)
        check(out, reference.linear_gated(x, weight, bias, activation), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num_outputs", [1, 31, 1000])
def test_the_largest_is_that_of_the_outputs(library, generator, isa, dtype, num_outputs):
    weight, bias = layer(generator, 64, num_outputs, dtype)
    packed = cpu.pack(library, weight, isa=isa)
    for rows in (1, 17, 64):
        x = torch.randn(rows, 64, generator=generator).to(dtype)
        outputs = multiply(library, x, packed, bias, num_outputs, isa)
        assert torch.equal(cpu.linear_largest(library, x, packed, bias, num_outputs, isa=isa), outputs.float().argmax(dim=1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_lowest_of_equals_is_the_largest(library, isa, dtype):
    weight = torch.zeros(500, 8, dtype=dtype)
    weight[[77, 80, 300]] = 1
    packed = cpu.pack(library, weight, isa=isa)
    x = torch.stack((torch.ones(8), torch.zeros(8), -torch.ones(8))).to(dtype)
    assert cpu.linear_largest(library, x, packed, None, 500, isa=isa).tolist() == [77, 0, 0]
    # Of outputs that differ in float32 and are rounded to the same value, too.
    near = torch.full((500, 1), 256.0, dtype=dtype)
    bias = torch.linspace(0, 1e-6, 500).to(dtype)
    assert cpu.linear_largest(library, x[:1, :1].contiguous(), cpu.pack(library, near, isa=isa), bias, 500, isa=isa).tolist() == [0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [torch.nan, -torch.nan, torch.inf])
def test_rows_without_a_finite_largest_output_are_marked(library, generator, isa, dtype, bad):
    weight, _ = layer(generator, 8, 100, dtype)
    bias = torch.zeros(100, dtype=dtype)
    x = torch.randn(3, 8, generator=generator).to(dtype)
    sound = reference.linear_largest(x, weight)
    x[1, 3] = bad
    found = cpu.linear_largest(library, x, cpu.pack(library, weight, isa=isa), bias, 100, isa=isa)
    assert found.tolist() == [int(sound[0]), -1, int(sound[2])]
    bias.fill_(-torch.inf)
    assert cpu.linear_largest(library, x, cpu.pack(library, weight, isa=isa), bias, 100, isa=isa).tolist() == [-1, -1, -1]
    bias[42] = 0
    assert cpu.linear_largest(library, x[:1], cpu.pack(library, weight, isa=isa), bias, 100, isa=isa).tolist() == [42]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("magnitude", [1e-30, 1e-6, 1e6, 1e30])
@pytest.mark.parametrize("of_weights", [False, True])
def test_magnitudes_do_not_matter(library, generator, isa, dtype, magnitude, of_weights):
    weight, _ = layer(generator, 300, 40, torch.float32)
    x = torch.randn(7, 300, generator=generator)
    weight, x = (weight * magnitude, x) if of_weights else (weight, x * magnitude)
    weight, x = weight.to(dtype), x.to(dtype)
    out = multiply(library, x, cpu.pack(library, weight, isa=isa), None, 40, isa)
    check(out.float() / magnitude, reference.linear(x, weight, None).float() / magnitude, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_inputs_do_not_drown_the_others(library, generator, isa, dtype):
    weight, _ = layer(generator, 300, 40, dtype)
    x = torch.randn(7, 300, generator=generator).to(dtype)
    x[:, 17] *= 3000
    exact = x.double() @ weight.double().T
    error = (multiply(library, x, cpu.pack(library, weight, isa=isa), None, 40, isa).double() - exact).abs()
    assert (error <= TOLERANCE[dtype] * exact.abs().clamp(min=1)).all()
    # Next to rows of outliers, the others are as exact as ever.
    x[0] = torch.randn(300, generator=generator).to(dtype)
    check(multiply(library, x, cpu.pack(library, weight, isa=isa), None, 40, isa)[0], reference.linear(x[:1], weight, None)[0], dtype)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_spoil_their_output_alone(library, generator, isa, bad):
    weight, _ = layer(generator, 40, 35, torch.bfloat16)
    weight[20, 7] = bad
    x = torch.randn(3, 40, generator=generator).bfloat16()
    out = multiply(library, x, cpu.pack(library, weight, isa=isa), None, 35, isa)
    assert not out[:, 20].isfinite().any()
    kept = torch.arange(35) != 20
    check(out[:, kept], reference.linear(x, weight[kept], None), torch.bfloat16)


def test_rows_of_views_are_read_and_written_as_they_lie(library, generator, isa):
    weight, bias = layer(generator, 40, 20, torch.float32)
    wide, out, residual = torch.randn(6, 100, generator=generator), torch.zeros(6, 64), torch.randn(6, 33, generator=generator)
    x = wide[:, 30:70]
    cpu.linear(library, x, cpu.pack(library, weight, isa=isa), bias, out[:, 10:30], residual=residual[:, 3:23], isa=isa)
    check(out[:, 10:30], reference.linear(x, weight, bias, residual[:, 3:23]), torch.float32)
    assert not out[:, :10].any()
    assert not out[:, 30:].any()


def test_no_rows_are_no_work(library, generator, isa):
    weight, _ = layer(generator, 40, 20, torch.float32)
    packed = cpu.pack(library, weight, isa=isa)
    assert multiply(library, torch.empty(0, 40), packed, None, 20, isa).shape == (0, 20)
    assert cpu.linear_largest(library, torch.empty(0, 40), packed, None, 20, isa=isa).shape == (0,)


@pytest.mark.parametrize("spread", [0.0, 4.0, 30.0])
def test_halves_are_scaled_weights_that_are_rounded_once(library, generator, spread):
    if Isa.AVX512_FP16 not in supported_isas(library):
        pytest.skip("this host does not run avx512_fp16")
    magnitudes = torch.rand(32, 96, generator=generator).mul(spread).neg().exp()
    weight = torch.randn(32, 96, generator=generator).mul(magnitudes).bfloat16()
    weight[3], weight[4, ::2], weight[5, 7] = 0, -0.0, torch.inf
    weight[2, 1:] = 0
    weight[:3, 0] = torch.tensor([2e-40, 1e-38, 1e-40]).bfloat16()  # subnormal numbers, of which the last is its row's largest
    packed = cpu.pack(library, weight, isa=Isa.AVX512_FP16)
    halves, factors = packed[: 96 * 32 * 2].view(torch.float16).view(96, 32).T, packed[96 * 32 * 2 :].view(torch.float32)
    assert torch.equal(halves.contiguous().view(torch.int16), (weight.float() / factors[:, None]).half().view(torch.int16))
    assert ((halves.abs().amax(dim=1) >= 8) & (halves.abs().amax(dim=1) < 16))[6:].all()


def test_weights_are_packed_from_rows_of_a_view(library, generator, isa):
    weight, _ = layer(generator, 40, 64, torch.bfloat16)
    assert torch.equal(cpu.pack(library, weight[:, 5:30], isa=isa), cpu.pack(library, weight[:, 5:30].contiguous(), isa=isa))
