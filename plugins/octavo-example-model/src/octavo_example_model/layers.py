"""Two layers that Octavo does not bring. `layout` says how their parameters are made of a checkpoint's tensors."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from octavo_models.layers import Part, WeightLayout


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimension, in float32 (Ba et al. 2016)."""

    def __init__(self, size: int, eps: float, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.size = size
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(size, dtype=dtype), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(size, dtype=dtype), requires_grad=False)

    def layout(self, parameter: str) -> WeightLayout:  # noqa: ARG002  (both are vectors)
        return WeightLayout(parts=(Part(self.size),))

    def forward(self, x: Tensor) -> Tensor:
        """x [..., size] -> the same shape and type."""
        normed = functional.layer_norm(x.float(), (self.size,), self.weight.float(), self.bias.float(), self.eps)
        return normed.to(x.dtype)


class Blend(nn.Module):
    """weight[0] * residual + weight[1] * embedding: each layer sees the tokens themselves again."""

    def __init__(self, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, dtype=dtype), requires_grad=False)

    def layout(self, parameter: str) -> WeightLayout:  # noqa: ARG002  (there is but one)
        return WeightLayout(parts=(Part(2),))

    def forward(self, residual: Tensor, embedding: Tensor) -> Tensor:
        """Two tensors [N, E] -> [N, E]."""
        return self.weight[0] * residual + self.weight[1] * embedding
