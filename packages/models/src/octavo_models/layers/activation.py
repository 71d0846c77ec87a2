"""Activation functions of gated layers, by the name that models give them."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

from octavo_kernels import ops


def gelu_tanh(x: Tensor) -> Tensor:
    """x Φ(x) with Φ, the normal distribution, approximated by a tanh (Hendrycks and Gimpel 2016)."""
    return functional.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"silu": functional.silu, "gelu_tanh": gelu_tanh}
"""Name -> elementwise function. Methods get the name, so that a kernel with a fused activation can choose by it."""

GATES: dict[str, Callable[[Tensor], Tensor]] = {"silu": ops.silu_and_mul, "gelu_tanh": ops.gelu_tanh_and_mul}
"""Name -> activation(gate) * up in float32, of [..., 2 F] with gate and up side by side; the same names."""
