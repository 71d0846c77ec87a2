"""Gated activations (Shazeer 2020): activation(gate) * up in float32, [..., 2 F] with the gate first -> [..., F] of the same type."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional


def silu_and_mul(gate_and_up: Tensor) -> Tensor:
    """silu(g) = g / (1 + exp(-g))."""
    gate, up = gate_and_up.float().chunk(2, dim=-1)
    return (functional.silu(gate) * up).to(gate_and_up.dtype)


def gelu_tanh_and_mul(gate_and_up: Tensor) -> Tensor:
    """gelu(g) = g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))) (Hendrycks and Gimpel 2016)."""
    gate, up = gate_and_up.float().chunk(2, dim=-1)
    return (functional.gelu(gate, approximate="tanh") * up).to(gate_and_up.dtype)


GATES: dict[str, Callable[[Tensor], Tensor]] = {"silu": silu_and_mul, "gelu_tanh": gelu_tanh_and_mul}
"""By the activation's name."""
