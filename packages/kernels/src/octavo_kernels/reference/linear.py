"""Linear layers from their definition, with sums in float64: the reference of faster ones."""

from torch import Tensor
from torch.nn import functional

from octavo_kernels.reference.activation import GATES


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
    """x [N, I], weight [O, I], bias [O], residual [N, O] -> x Wᵀ + bias + residual, rounded once to x's type."""
    return _exact(x, weight, bias, residual).to(x.dtype)


def linear_gated(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """x [N, I], weight [2 F, I], gates first, bias [2 F] -> activation(gate) * up, [N, F], rounded once to x's type."""
    return GATES[activation](_exact(x, weight, bias, None).float()).to(x.dtype)


def linear_largest(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The number of the largest output, rounded to x's type: int64 [N]; the lowest of equals, -1 for rows without a finite maximum."""
    values, indices = linear(x, weight, bias).float().max(dim=1)
    return indices.where(values.isfinite(), -1)


def _exact(x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None) -> Tensor:
    product = functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    return product if residual is None else product + residual.double()
