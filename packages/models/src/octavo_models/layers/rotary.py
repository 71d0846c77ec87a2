"""Rotary position embedding (Su et al. 2021) in the half-split order of GPT-NeoX: dimension i turns with dimension i + D/2."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from octavo.errors import ConfigurationError
from octavo.model.config import RopeConfig
from octavo_kernels import ops


def rotary_table(rope: RopeConfig, max_len: int) -> Tensor:
    """Cosines, then sines, of every position below `max_len`, times the attention factor: float32 [max_len, rope.dim].

    Two kinds turn long sequences otherwise than short ones. The table is the one of sequences that are `max_len` tokens long, and
    shorter ones are turned by it as well, since their keys stay in the cache as they grow: with "dynamic" and "longrope" a model gives
    what it was trained to give for short sequences where `max_len` is at most the original length.

    Single precision throughout, as models are trained with it: at distant positions the rounding of a frequency is visible in the logits.
    """
    positions = torch.arange(max_len, dtype=torch.float32)
    angles = torch.outer(positions, inverse_frequencies(rope, max_len))
    return torch.cat((angles.cos(), angles.sin()), dim=-1) * rope.attention_factor


def inverse_frequencies(rope: RopeConfig, max_len: int = 0) -> Tensor:
    """Radians a position of each pair of dimensions, float32 [rope.dim / 2], for sequences of up to `max_len` tokens.

    Raises `ConfigurationError` for an unknown kind.
    """
    if rope.kind not in _KINDS:
        raise ConfigurationError(f"unknown kind of rotary embedding {rope.kind!r}: there are {', '.join(_KINDS)}")
    inverse = _KINDS[rope.kind](rope, max_len)
    if rope.frequency_factors is not None:
        inverse = inverse / torch.tensor(rope.frequency_factors, dtype=torch.float32)
    return inverse


def rotate(query: Tensor, key: Tensor, positions: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate heads by position; dimensions beyond the table's width pass through.

    Args:
        query, key: [N, H, D] and [N, G, D].
        positions: int64 [N].
        table: float32 [max_len, D'], D' <= D, of `rotary_table`.

    Returns:
        New tensors of the same shapes and types, contiguous.
    """
    return ops.rotate(query, key, positions, table)


def _wavelengths(rope: RopeConfig, theta: float) -> Tensor:
    """Positions a radian of each pair of dimensions: theta ** (2 i / dim)."""
    return theta ** (torch.arange(0, rope.dim, 2, dtype=torch.float32) / rope.dim)


def _default(rope: RopeConfig, max_len: int) -> Tensor:  # noqa: ARG001  (all kinds are called alike)
    return 1.0 / _wavelengths(rope, rope.theta)


def _linear(rope: RopeConfig, max_len: int) -> Tensor:
    return _default(rope, max_len) / rope.factor


def _dynamic(rope: RopeConfig, max_len: int) -> Tensor:
    """NTK-aware scaling by length (bloc97 and emozilla 2023): the base grows with what a sequence has beyond the original length."""
    length = max(max_len, rope.original_max_position)
    stretch = rope.factor * length / rope.original_max_position - (rope.factor - 1)
    return 1.0 / _wavelengths(rope, rope.theta * stretch ** (rope.dim / (rope.dim - 2)))


def _llama3(rope: RopeConfig, max_len: int) -> Tensor:
    """Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between blended linearly in frequency."""
    inverse = _default(rope, max_len)
    turns = rope.original_max_position * inverse / (2 * math.pi)
    kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    kept = kept.clamp(0.0, 1.0)
    return inverse / rope.factor * (1 - kept) + inverse * kept


def _yarn(rope: RopeConfig, max_len: int) -> Tensor:  # noqa: ARG001
    """YaRN (Peng et al. 2023): as Llama 3.1, but blended linearly in the number of the dimension."""

    def dimension(turns: float) -> float:
        """The pair of dimensions that turns so often within the original length."""
        return rope.dim * math.log(rope.original_max_position / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    first, last = dimension(rope.beta_fast), dimension(rope.beta_slow)
    if rope.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, rope.dim - 1)
    if first == last:
        last += 0.001  # a step instead of a ramp
    stretched = ((torch.arange(rope.dim // 2, dtype=torch.float32) - first) / (last - first)).clamp(0.0, 1.0)
    wavelengths = _wavelengths(rope, rope.theta)
    return 1.0 / (rope.factor * wavelengths) * stretched + 1.0 / wavelengths * (1 - stretched)


def _longrope(rope: RopeConfig, max_len: int) -> Tensor:
    """LongRoPE (Ding et al. 2024): divisors that were searched for, one set for the original length and one beyond it."""
    factors = rope.long_factors if max_len > rope.original_max_position else rope.short_factors
    return 1.0 / (torch.tensor(factors, dtype=torch.float32) * _wavelengths(rope, rope.theta))


_KINDS: dict[str, Callable[[RopeConfig, int], Tensor]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
"""Inverse frequencies by kind, for sequences of up to a length."""
