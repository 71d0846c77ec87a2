"""Gated activations in C++."""

import ctypes

import torch
from torch import Tensor

from octavo_kernels.cpu.abi import ACTIVATIONS, TYPES, Gate
from octavo_kernels.cpu.calls import submit
from octavo_kernels.cpu.isa import Isa


def gate(library: ctypes.CDLL, gate_and_up: Tensor, activation: str, *, isa: Isa) -> Tensor:
    """activation(gate) * up, in float32.

    Args:
        library: from `load_library`.
        gate_and_up: [..., 2 F], gate first; what is neither contiguous nor [N, 2 F] with contiguous rows is copied.
        activation: "silu" or "gelu_tanh".
        isa: one that this host runs.

    Returns:
        [..., F], contiguous, of the same type.
    """
    is_readable = gate_and_up.is_contiguous() or (gate_and_up.ndim == 2 and gate_and_up.stride(1) == 1)
    readable = gate_and_up if is_readable else gate_and_up.contiguous()
    *rows, both = readable.shape
    assert both % 2 == 0
    out = torch.empty((*rows, both // 2), dtype=readable.dtype)
    task = Gate(
        readable.data_ptr(),
        out.data_ptr(),
        both if readable.is_contiguous() else readable.stride(0),
        readable.numel() // both,
        both // 2,
        ACTIVATIONS[activation],
        TYPES[readable.dtype],
        isa,
        torch.get_num_threads(),
    )
    submit(library.octavo_gate, task, activation)
    return out
