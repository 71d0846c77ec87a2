"""The gated activation of Llama's MLP (SwiGLU, Shazeer 2020)."""

import torch
from torch import Tensor


def silu_and_mul(gate_and_up: Tensor) -> Tensor:
    """silu(g) * u with silu(g) = g / (1 + exp(-g)), in float32: [..., 2 F], gate first -> [..., F] of the same type."""
    gate, up = gate_and_up.float().chunk(2, dim=-1)
    return (gate * torch.sigmoid(gate) * up).to(gate_and_up.dtype)
