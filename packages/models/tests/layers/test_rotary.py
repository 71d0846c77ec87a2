"""Rotary embedding against complex numbers and against formulas written out for one frequency at a time."""

import cmath
import math

import pytest
import torch

from octavo.errors import ConfigurationError
from octavo.model.config import RopeConfig
from octavo_models.layers import rotary_table, rotate
from octavo_models.layers.rotary import inverse_frequencies

LLAMA3 = RopeConfig(
    theta=500_000.0, dim=64, kind="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position=8192
)


def llama3_frequency(inverse: float, rope: RopeConfig) -> float:
    wavelength = 2 * math.pi / inverse
    if wavelength < rope.original_max_position / rope.high_freq_factor:
        return inverse
    if wavelength > rope.original_max_position / rope.low_freq_factor:
        return inverse / rope.factor
    smooth = (rope.original_max_position / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    return (1 - smooth) * inverse / rope.factor + smooth * inverse


def test_turns_pairs_of_a_head_like_complex_numbers() -> None:
    rope = RopeConfig(theta=10_000.0, dim=8)
    heads = torch.randn(3, 2, 8)
    positions = torch.tensor([0, 5, 17])
    turned, _ = rotate(heads, heads[:, :1], positions, rotary_table(rope, 18))
    for row, position in enumerate(positions.tolist()):
        for pair in range(4):
            angle = position * 10_000.0 ** (-2 * pair / 8)
            number = complex(heads[row, 1, pair], heads[row, 1, pair + 4]) * cmath.exp(1j * angle)
            assert turned[row, 1, pair].item() == pytest.approx(number.real, abs=1e-5)
            assert turned[row, 1, pair + 4].item() == pytest.approx(number.imag, abs=1e-5)


def test_dimensions_beyond_the_table_pass_through() -> None:
    heads = torch.randn(4, 2, 12)
    turned, _ = rotate(heads, heads, torch.arange(4), rotary_table(RopeConfig(theta=10_000.0, dim=8), 4))
    assert torch.equal(turned[..., 8:], heads[..., 8:])
    assert not torch.equal(turned[1:, :, :8], heads[1:, :, :8])


def test_keeps_the_type_of_heads() -> None:
    heads = torch.randn(4, 2, 8).bfloat16()
    query, key = rotate(heads, heads[:, :1], torch.arange(4), rotary_table(RopeConfig(theta=10_000.0, dim=8), 4))
    assert (query.dtype, key.dtype, query.shape, key.shape) == (torch.bfloat16, torch.bfloat16, (4, 2, 8), (4, 1, 8))


def test_table_holds_cosines_then_sines() -> None:
    table = rotary_table(RopeConfig(theta=10_000.0, dim=6), 3)
    assert table.dtype == torch.float32
    assert table.shape == (3, 6)
    assert table[0].tolist() == [1, 1, 1, 0, 0, 0]
    assert table[2, 0].item() == pytest.approx(math.cos(2))
    assert table[2, 3].item() == pytest.approx(math.sin(2))


def test_linear_scaling_divides_positions() -> None:
    plain = rotary_table(RopeConfig(theta=10_000.0, dim=8), 16)
    scaled = rotary_table(RopeConfig(theta=10_000.0, dim=8, kind="linear", factor=2.0), 32)
    torch.testing.assert_close(scaled[::2], plain)


def test_llama3_scaling_keeps_short_and_stretches_long_wavelengths() -> None:
    plain = inverse_frequencies(RopeConfig(theta=500_000.0, dim=64)).tolist()
    expected = [llama3_frequency(inverse, LLAMA3) for inverse in plain]
    torch.testing.assert_close(inverse_frequencies(LLAMA3), torch.tensor(expected))
    assert expected[0] == plain[0]
    assert expected[-1] == plain[-1] / 8


def test_frequency_factors_divide_each_frequency() -> None:
    factors = (1.0, 2.0, 4.0, 8.0)
    plain = inverse_frequencies(RopeConfig(theta=10_000.0, dim=8))
    scaled = inverse_frequencies(RopeConfig(theta=10_000.0, dim=8, frequency_factors=factors))
    torch.testing.assert_close(scaled, plain / torch.tensor(factors))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ConfigurationError, match="unknown kind of rotary embedding 'spiral'"):
        rotary_table(RopeConfig(theta=10_000.0, dim=8, kind="spiral"), 4)


def test_the_base_of_dynamic_scaling_follows_the_longest_sequence() -> None:
    plain = inverse_frequencies(RopeConfig(theta=10_000.0, dim=8))
    dynamic = RopeConfig(theta=10_000.0, dim=8, kind="dynamic", factor=2.0, original_max_position=64)
    torch.testing.assert_close(inverse_frequencies(dynamic, 64), plain)
    stretched = RopeConfig(theta=10_000.0 * (2 * 96 / 64 - 1) ** (8 / 6), dim=8)
    torch.testing.assert_close(inverse_frequencies(dynamic, 96), inverse_frequencies(stretched))
    torch.testing.assert_close(rotary_table(dynamic, 96), rotary_table(stretched, 96))


def test_yarn_keeps_fast_and_stretches_slow_frequencies_and_raises_attention() -> None:
    yarn = RopeConfig(theta=10_000.0, dim=64, kind="yarn", factor=4.0, original_max_position=2048, attention_factor=1.25)
    plain = inverse_frequencies(RopeConfig(theta=10_000.0, dim=64)).tolist()
    scaled = inverse_frequencies(yarn).tolist()
    assert scaled[0] == pytest.approx(plain[0])
    assert scaled[-1] == pytest.approx(plain[-1] / 4)
    for index, (before, after) in enumerate(zip(plain, scaled, strict=True)):
        turns = 2048 * before / (2 * math.pi)
        ramp = 64 * math.log(2048 / (turns * 2 * math.pi)) / (2 * math.log(10_000.0))
        assert ramp == pytest.approx(index, abs=1e-4)
        assert before / 4 * (1 - 1e-6) <= after <= before * (1 + 1e-6)
    assert rotary_table(yarn, 2)[0, 0].item() == 1.25


def test_longrope_has_one_set_of_divisors_up_to_the_original_length_and_one_beyond() -> None:
    short, long = (1.0, 1.5), (2.0, 8.0)
    rope = RopeConfig(theta=100.0, dim=4, kind="longrope", original_max_position=16, short_factors=short, long_factors=long)
    plain = inverse_frequencies(RopeConfig(theta=100.0, dim=4))
    torch.testing.assert_close(inverse_frequencies(rope, 16), plain / torch.tensor(short))
    torch.testing.assert_close(inverse_frequencies(rope, 17), plain / torch.tensor(long))
