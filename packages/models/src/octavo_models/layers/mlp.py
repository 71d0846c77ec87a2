"""The gated feed-forward layer (Shazeer 2020)."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from octavo_models.layers.linear import Linear
from octavo_models.layers.parallel import SINGLE, ParallelGroup


class FeedForward(nn.Module, ABC):
    """What stands in a layer's second half."""

    @abstractmethod
    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """x [N, E], residual [N, E] -> residual + what this makes of x; leaves `residual` as it is."""


class GatedMLP(FeedForward):
    """down(activation(gate(x)) * up(x)), gate and up as one product.

    Args:
        hidden_size, intermediate_size: over all ranks.
        activation: a key of `ACTIVATIONS`.
        bias: whether the projections have one.
        dtype: of the weights.
        group: ranks.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        *,
        dtype: torch.dtype,
        activation: str = "silu",
        bias: bool = False,
        group: ParallelGroup = SINGLE,
    ) -> None:
        super().__init__()
        self.activation = activation
        inner = [intermediate_size, intermediate_size]
        self.gate_up = Linear(hidden_size, inner, split="column", gated=True, bias=bias, dtype=dtype, group=group)
        self.down = Linear(intermediate_size, [hidden_size], split="row", bias=bias, dtype=dtype, group=group)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """x [N, E], residual [N, E] -> residual + MLP of x."""
        return self.down.add(self.gate_up.gated(x, self.activation), residual)

    def forward(self, x: Tensor) -> Tensor:
        """x [N, E] -> [N, E]."""
        projected: Tensor = self.down(self.gate_up.gated(x, self.activation))
        return projected
