"""Linear layers, and the methods that hold and multiply their weights."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from octavo_models.layers.activation import GATES
from octavo_models.layers.parallel import SINGLE, ParallelGroup, Part, WeightLayout, empty_parameter
from octavo_models.sampling.likeliest import likeliest

Split = Literal["column", "row", "replicated"]


class LinearMethod(ABC):
    """How a linear layer's weights are stored and multiplied. Stateless: all that differs between layers is a parameter of the layer,
    also where the weights are packed bytes, so that weights can be passed in from outside.
    """

    @abstractmethod
    def create_weights(self, layer: "Linear", dtype: torch.dtype) -> None:
        """Register the parameters that a checkpoint fills, without content; called once, while the layer is made."""

    def reserve(self, layers: Sequence["Linear"]) -> None:  # noqa: B027  (most methods take no memory of their own)
        """Called once, before `finish_loading` of all these layers: a method may get their memory as one piece."""

    def finish_loading(self, layer: "Linear") -> None:  # noqa: B027  (most methods multiply with what was loaded)
        """Turn what was loaded into what `apply` reads (pack, transpose, quantize); called once. May replace parameters."""

    @abstractmethod
    def apply(self, layer: "Linear", x: Tensor) -> Tensor:
        """x [N, I] -> [N, O] of this rank; pure."""

    def apply_add(self, layer: "Linear", x: Tensor, residual: Tensor) -> Tensor:
        """residual + apply(x), [N, O]; leaves `residual` as it is."""
        return residual + self.apply(layer, x)

    def apply_largest(self, layer: "Linear", x: Tensor) -> Tensor:
        """The number of the largest of `apply`'s values in each row, as `likeliest` finds it: int64 [N]."""
        return likeliest(self.apply(layer, x))

    def apply_gated(self, layer: "Linear", x: Tensor, activation: str) -> Tensor:
        """activation(gate) * up, [N, O / 2], where `apply` gives gate and up side by side. `activation` is a key of `GATES`."""
        return GATES[activation](self.apply(layer, x))


class UnquantizedLinear(LinearMethod):
    """`weight` [O, I] and, where the layer has one, `bias` [O], both of the model's type."""

    def create_weights(self, layer: "Linear", dtype: torch.dtype) -> None:
        layer.weight = empty_parameter(layer.layout("weight").local_shape(layer.group), dtype)
        bias = empty_parameter(layer.layout("bias").local_shape(layer.group), dtype) if layer.has_bias else None
        layer.register_parameter("bias", bias)

    def apply(self, layer: "Linear", x: Tensor) -> Tensor:
        return functional.linear(x, layer.weight, layer.bias if layer.adds_bias else None)


class Linear(nn.Module):
    """y = x Wᵀ + b, for one projection or several fused ones that read the same input.

    Args:
        in_features: I over all ranks.
        parts: outputs over all ranks, one entry a projection; an integer is a part that splits anywhere.
        split: "column" splits the outputs over ranks; "row" splits the inputs, and each rank's result is a term of the sum
            (only rank 0 adds the bias); "replicated" splits nothing.
        bias: whether there is one.
        gated: whether `gated` is what is called, so that a method may interleave gate and up.
        dtype: of the weights.
        group: ranks.
        method: stores and multiplies; may be replaced after loading by one whose `finish_loading` reads the present weights.
    """

    weight: nn.Parameter
    bias: nn.Parameter | None
    packed: nn.Parameter
    """In place of `weight` where the method packs."""
    packed_dtype: torch.dtype

    def __init__(
        self,
        in_features: int,
        parts: Sequence[Part | int],
        *,
        split: Split,
        dtype: torch.dtype,
        bias: bool = False,
        gated: bool = False,
        group: ParallelGroup = SINGLE,
        method: LinearMethod | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.parts = tuple(Part(part) if isinstance(part, int) else part for part in parts)
        self.split = split
        self.has_bias = bias
        self.adds_bias = bias and (split != "row" or group.rank == 0)
        self.is_gated = gated
        self.group = group
        self.method = method or UnquantizedLinear()
        self.local_sizes = tuple(part.local_size(group) if split == "column" else part.size for part in self.parts)
        self.method.create_weights(self, dtype)

    @property
    def num_outputs(self) -> int:
        """O of this rank."""
        return sum(self.local_sizes)

    def layout(self, parameter: str) -> WeightLayout:
        """How `weight` or `bias` is made of a checkpoint's tensors."""
        if parameter == "bias":
            return WeightLayout(parts=self.parts, axis=0 if self.split == "column" else None)
        axis = {"column": 0, "row": 1, "replicated": None}[self.split]
        return WeightLayout(parts=self.parts, columns=self.in_features, axis=axis)

    def forward(self, x: Tensor) -> Tensor:
        """x [N, I] -> [N, O], fused projections side by side."""
        return self.method.apply(self, x)

    def separate(self, x: Tensor) -> tuple[Tensor, ...]:
        """x [N, I] -> one view [N, Oᵢ] a projection."""
        return torch.split(self.method.apply(self, x), list(self.local_sizes), dim=-1)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """residual [N, O] + the layer of x [N, I]."""
        return self.method.apply_add(self, x, residual)

    def largest(self, x: Tensor) -> Tensor:
        """The number of each row's largest output: int64 [N]; the lowest of equals, -1 for rows without a finite maximum."""
        return self.method.apply_largest(self, x)

    def gated(self, x: Tensor, activation: str) -> Tensor:
        """Gate and up projection of x [N, I] -> activation(gate) * up."""
        return self.method.apply_gated(self, x, activation)
