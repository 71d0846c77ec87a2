"""Activation functions of gated layers, by the name that models give them."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"silu": functional.silu}
"""Name -> elementwise function. Methods get the name, so that a kernel with a fused activation can choose by it."""
