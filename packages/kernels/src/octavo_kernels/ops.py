"""Ops for tensors of any device: in C++ on a CPU where the library is installed, else in plain torch. For inference: there is no gradient.

A compiler that traces them sees ops of the namespace `octavo` where C++ serves, and plain torch elsewhere.
"""

import torch
from torch import Tensor

from octavo_kernels import library
from octavo_kernels.native import is_plain, takes
from octavo_kernels.reference import activation, norm, rope


def rms_norm(x: Tensor, weight: Tensor, eps: float, *, offset: float = 0.0) -> Tensor:
    """x / sqrt(mean(x²) + eps) * (offset + weight) over the last dimension, in float32.

    Args:
        x: [..., E].
        weight: [E].
        eps: keeps rows of zeros finite.
        offset: 1 where a model's weights are told from 1 on.

    Returns:
        [..., E] of x's type.
    """
    if not takes(x, weight):
        return norm.rms_norm(x, weight, eps, offset=offset)
    run = library.rms_norm if is_plain(x) else torch.ops.octavo.rms_norm
    return run(x, weight, eps, offset)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float, *, offset: float = 0.0) -> tuple[Tensor, Tensor]:
    """`rms_norm` of x + residual, and that sum; both [..., E] of x's type. The norm is of the sum as it is handed on, rounded."""
    if not takes(x, residual, weight):
        return norm.add_rms_norm(x, residual, weight, eps, offset=offset)
    run = library.add_rms_norm if is_plain(x) else torch.ops.octavo.add_rms_norm
    return run(x, residual, weight, eps, offset)


def rotate(query: Tensor, key: Tensor, positions: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Rotary position embedding in the order of GPT-NeoX, in float32: (a cos - b sin, b cos + a sin) for dimensions i and i + D' / 2.

    Args:
        query, key: [N, H, D] and [N, G, D].
        positions: int64 [N].
        table: float32 [P, D'], D' / 2 cosines and then D' / 2 sines of each position; D' <= D.

    Returns:
        New tensors of the same shapes and types; dimensions from D' on are as they were.
    """
    if not takes(query, key):
        return rope.rotate(query, positions, table), rope.rotate(key, positions, table)
    run = library.rotate if is_plain(query) else torch.ops.octavo.rotate
    return run(query, key, positions, table)


def silu_and_mul(gate_and_up: Tensor) -> Tensor:
    """silu(gate) * up in float32, [..., 2 F] with the gate first -> [..., F] of the same type."""
    return _gate(gate_and_up, "silu")


def gelu_tanh_and_mul(gate_and_up: Tensor) -> Tensor:
    """gelu(gate) * up in float32, gelu approximated by a tanh; [..., 2 F] with the gate first -> [..., F] of the same type."""
    return _gate(gate_and_up, "gelu_tanh")


def _gate(gate_and_up: Tensor, name: str) -> Tensor:
    if not takes(gate_and_up):
        return activation.GATES[name](gate_and_up)
    run = library.gate if is_plain(gate_and_up) else torch.ops.octavo.gate
    return run(gate_and_up, name)
