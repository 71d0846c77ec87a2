"""Root mean square normalisation (Zhang and Sennrich 2019)."""

import torch
from torch import Tensor, nn

from octavo_kernels import ops
from octavo_models.layers.parallel import Part, WeightLayout, empty_parameter


class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) * (offset + weight) over the last dimension, computed in float32.

    Args:
        size: of the last dimension.
        eps: keeps rows of zeros finite.
        dtype: of the weight.
        offset: 1 where the model's weights are told from 1 on.
    """

    def __init__(self, size: int, eps: float, *, dtype: torch.dtype, offset: float = 0.0) -> None:
        super().__init__()
        self.size = size
        self.eps = eps
        self.offset = offset
        self.weight = empty_parameter((size,), dtype)

    def layout(self, parameter: str) -> WeightLayout:  # noqa: ARG002  (there is but one)
        """How `weight` is made of a checkpoint's tensor."""
        return WeightLayout(parts=(Part(self.size),))

    def forward(self, x: Tensor) -> Tensor:
        """x [..., size] -> the same shape and type."""
        return ops.rms_norm(x, self.weight, self.eps, offset=self.offset)
