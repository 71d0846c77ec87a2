import math

import torch
from torch.nn import functional

from octavo_kernels.reference.activation import gelu_tanh_and_mul, silu_and_mul
from octavo_kernels.reference.norm import add_rms_norm, rms_norm
from octavo_kernels.reference.rope import rotate


def test_rms_norm_equals_torch(generator):
    x, weight = torch.randn(5, 32, generator=generator), torch.randn(32, generator=generator)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5), functional.rms_norm(x, (32,), weight, 1e-5))


def test_rms_norm_of_zeros_is_zero():
    assert not rms_norm(torch.zeros(2, 8, dtype=torch.bfloat16), torch.ones(8, dtype=torch.bfloat16), 1e-6).any()


def test_adding_hands_on_the_sum_and_norms_it(generator):
    x, residual = torch.randn(2, 4, 16, generator=generator).bfloat16()
    weight = torch.ones(16)
    normed, total = add_rms_norm(x, residual, weight, 1e-6)
    assert torch.equal(total, x + residual)
    assert torch.equal(normed, rms_norm(total, weight, 1e-6))
    assert normed.dtype == total.dtype == torch.bfloat16


def test_silu_and_mul_equals_torch(generator):
    x = torch.randn(3, 20, generator=generator)
    torch.testing.assert_close(silu_and_mul(x), functional.silu(x[:, :10]) * x[:, 10:])


def test_gelu_tanh_and_mul_equals_torch(generator):
    x = torch.randn(3, 20, generator=generator)
    torch.testing.assert_close(gelu_tanh_and_mul(x), functional.gelu(x[:, :10], approximate="tanh") * x[:, 10:])


def test_an_offset_is_added_to_the_weight(generator):
    x, weight = torch.randn(5, 32, generator=generator), torch.randn(32, generator=generator)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5, offset=1.0), rms_norm(x, weight + 1, 1e-5))


def test_rotation_turns_pairs_by_their_angle():
    angles = torch.tensor([[0.0], [math.pi / 2]])
    table = torch.cat((angles.cos(), angles.sin()), dim=1)
    heads = torch.tensor([[[3.0, 4.0, 7.0]]]).expand(2, 1, 3)
    out = rotate(heads, torch.tensor([0, 1]), table)
    torch.testing.assert_close(out, torch.tensor([[[3.0, 4.0, 7.0]], [[-4.0, 3.0, 7.0]]]))


def test_rotated_scores_depend_on_the_distance_alone(generator):
    angles = torch.outer(torch.arange(50.0), torch.tensor([1.0, 0.3, 0.01, 0.001]))
    table = torch.cat((angles.cos(), angles.sin()), dim=1)
    query, key = torch.randn(2, 1, 1, 8, generator=generator)
    scores = [(rotate(query, torch.tensor([at + 7]), table) * rotate(key, torch.tensor([at]), table)).sum() for at in (0, 11, 42)]
    torch.testing.assert_close(torch.stack(scores), scores[0].expand(3))
