"""Rotary position embedding (Su et al. 2021) in the half-split order of GPT-NeoX: dimension i turns with dimension i + D/2."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from octavo.errors import ConfigurationError
from octavo.model.config import RopeConfig


def rotary_table(rope: RopeConfig, max_len: int) -> Tensor:
    """Cosines, then sines, of every position below `max_len`: float32 [max_len, rope.dim].

    Single precision throughout, as models are trained with it: at distant positions the rounding of a frequency is visible in the logits.
    """
    positions = torch.arange(max_len, dtype=torch.float32)
    angles = torch.outer(positions, inverse_frequencies(rope))
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


def inverse_frequencies(rope: RopeConfig) -> Tensor:
    """Radians a position of each pair of dimensions, float32 [rope.dim / 2]. Raises `ConfigurationError` for an unknown kind."""
    inverse = 1.0 / rope.theta ** (torch.arange(0, rope.dim, 2, dtype=torch.float32) / rope.dim)
    if rope.kind == "linear":
        inverse = inverse / rope.factor
    elif rope.kind == "llama3":
        inverse = _llama3(inverse, rope)
    elif rope.kind != "default":
        raise ConfigurationError(f"unknown kind of rotary embedding {rope.kind!r}: there are default, linear, llama3")
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
    cosine, sine = functional.embedding(positions, table).unsqueeze(1).chunk(2, dim=-1)
    return _turn(query, cosine, sine), _turn(key, cosine, sine)


def _turn(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    half = cosine.shape[-1]
    wide = heads.float()
    first, second, rest = wide[..., :half], wide[..., half : 2 * half], wide[..., 2 * half :]
    turned = (first * cosine - second * sine, second * cosine + first * sine, rest)
    return torch.cat(turned, dim=-1).to(heads.dtype)


def _llama3(inverse: Tensor, rope: RopeConfig) -> Tensor:
    """Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between blended linearly in frequency."""
    turns = rope.original_max_position * inverse / (2 * math.pi)
    kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    kept = kept.clamp(0.0, 1.0)
    return inverse / rope.factor * (1 - kept) + inverse * kept
