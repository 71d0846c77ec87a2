"""Root mean square normalisation (Zhang and Sennrich 2019)."""

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float, *, offset: float = 0.0) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * (offset + weight) over the last dimension, in float32.

    Args:
        x: [..., E].
        weight: [E].
        eps: keeps rows of zeros finite.
        offset: 1 where a model's weights are told from 1 on.

    Returns:
        [..., E] of x's type.
    """
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * (weight.float() + offset)).to(x.dtype)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float, *, offset: float = 0.0) -> tuple[Tensor, Tensor]:
    """The norm of x + residual, and that sum; both [..., E] of x's type. The norm is of the sum as it is handed on, rounded."""
    total = (x.float() + residual.float()).to(x.dtype)
    return rms_norm(total, weight, eps, offset=offset), total
