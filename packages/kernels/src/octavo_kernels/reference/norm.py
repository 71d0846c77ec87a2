"""Root mean square normalisation (Zhang and Sennrich 2019)."""

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, in float32.

    Args:
        x: [..., E].
        weight: [E].
        eps: keeps rows of zeros finite.

    Returns:
        [..., E] of x's type.
    """
    wide = x.float()
    normed = wide / torch.sqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (normed * weight.float()).to(x.dtype)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The residual stream x + residual, and its norm; both [..., E] of x's type. The norm is of the sum as it is handed on, rounded."""
    total = (x.float() + residual.float()).to(x.dtype)
    return rms_norm(total, weight, eps), total
