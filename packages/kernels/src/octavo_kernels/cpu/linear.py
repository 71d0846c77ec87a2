"""Linear layers with packed weights, in C++.

Shape legend: N rows, I inputs, O outputs; F outputs of a gated layer, half of O.
"""

import ctypes

import torch
from torch import Tensor

from octavo_kernels.cpu.abi import ACTIVATIONS, TYPES, Linear, Packing, check_status
from octavo_kernels.cpu.calls import submit
from octavo_kernels.cpu.isa import Isa


def packed_bytes(library: ctypes.CDLL, num_outputs: int, num_inputs: int, dtype: torch.dtype, *, isa: Isa, gated: bool) -> int:
    """Bytes that weights [O, I] of a type take once they are packed for an instruction set."""
    task = Packing(None, None, 0, num_inputs, num_outputs, gated, TYPES[dtype], isa, 1)
    num_bytes = int(library.octavo_packed_bytes(ctypes.byref(task)))
    assert num_bytes > 0, f"no linear layer has {num_outputs} outputs of {num_inputs} inputs"
    return num_bytes


def pack(library: ctypes.CDLL, weight: Tensor, packed: Tensor | None = None, *, isa: Isa, gated: bool = False) -> Tensor:
    """Lay weights out as the kernels of an instruction set read them; those but "avx512_fp16" read the same.

    Args:
        library: from `load_library`.
        weight: [O, I], the last dimension contiguous.
        packed: uint8 of `packed_bytes`, starting at a multiple of 64, which is written; None takes new memory.
        isa: that is going to multiply with them.
        gated: whether the first half of the outputs are gates and the second what they are multiplied with.

    Returns:
        What was packed.
    """
    num_outputs, num_inputs = weight.shape
    assert weight.stride(1) == 1 or num_inputs == 1
    if packed is None:
        packed = torch.empty(packed_bytes(library, num_outputs, num_inputs, weight.dtype, isa=isa, gated=gated), dtype=torch.uint8)
    assert packed.dtype == torch.uint8
    assert packed.is_contiguous()
    assert packed.numel() == packed_bytes(library, num_outputs, num_inputs, weight.dtype, isa=isa, gated=gated)
    assert packed.data_ptr() % 64 == 0
    task = Packing(
        weight.data_ptr(),
        packed.data_ptr(),
        weight.stride(0),
        num_inputs,
        num_outputs,
        gated,
        TYPES[weight.dtype],
        isa,
        torch.get_num_threads(),
    )
    check_status(library.octavo_pack_linear(ctypes.byref(task)), "pack_linear")
    return packed


def linear(
    library: ctypes.CDLL,
    x: Tensor,
    packed: Tensor,
    bias: Tensor | None,
    out: Tensor,
    *,
    residual: Tensor | None = None,
    isa: Isa,
) -> None:
    """out = x Wᵀ + bias, and + residual where there is one, with sums in float32, rounded once.

    "avx512_fp16" sums 64 products of bfloat16 at a time in half precision, with less error than the rounding makes. The order of a row's
    sums depends on I and the instruction set alone: not on the other rows nor on the number of threads.

    Args:
        library: from `load_library`.
        x: [N, I], the last dimension contiguous.
        packed: of weights [O, I] of x's type, for `isa`.
        bias: [O], contiguous, of x's type.
        out: [N, O] of x's type, the last dimension contiguous; written.
        residual: like out; may be it.
        isa: one that this host runs.
    """
    task = _describe(library, x, packed, bias, out.shape[1], isa, gated=False)
    _add_out(task, x, out)
    if residual is not None:
        assert residual.shape == out.shape
        assert residual.dtype == x.dtype
        assert _has_plain_rows(residual)
        task.residual, task.residual_stride = residual.data_ptr(), residual.stride(0)
    submit(library.octavo_linear, task, "linear")


def linear_gated(library: ctypes.CDLL, x: Tensor, packed: Tensor, bias: Tensor | None, out: Tensor, activation: str, *, isa: Isa) -> None:
    """out = activation(gate) * up, both of x Wᵀ + bias, rounded once; otherwise like `linear`.

    Args:
        packed: of weights [2 F, I] packed as gated.
        bias: [2 F], gates first.
        out: [N, F].
        activation: "silu" or "gelu_tanh".
    """
    task = _describe(library, x, packed, bias, 2 * out.shape[1], isa, gated=True)
    _add_out(task, x, out)
    task.activation = ACTIVATIONS[activation]
    submit(library.octavo_linear, task, "linear_gated")


def linear_largest(library: ctypes.CDLL, x: Tensor, packed: Tensor, bias: Tensor | None, num_outputs: int, *, isa: Isa) -> Tensor:
    """argmax of x Wᵀ + bias, rounded to x's type: int64 [N]; the lowest of equals, -1 for rows with NaN or without a finite maximum.

    Otherwise like `linear`, whose out is not written anywhere.
    """
    largest = torch.empty(len(x), dtype=torch.int64)
    task = _describe(library, x, packed, bias, num_outputs, isa, gated=False)
    task.largest = largest.data_ptr()
    submit(library.octavo_linear, task, "linear_largest")
    return largest


def _describe(library: ctypes.CDLL, x: Tensor, packed: Tensor, bias: Tensor | None, num_outputs: int, isa: Isa, *, gated: bool) -> Linear:
    num_rows, num_inputs = x.shape
    assert _has_plain_rows(x)
    assert packed.numel() == packed_bytes(library, num_outputs, num_inputs, x.dtype, isa=isa, gated=gated)
    task = Linear()
    task.x, task.x_stride = x.data_ptr(), x.stride(0)
    task.packed = packed.data_ptr()
    if bias is not None:
        assert bias.shape == (num_outputs,)
        assert bias.dtype == x.dtype
        assert bias.is_contiguous()
        task.bias = bias.data_ptr()
    task.num_rows, task.num_inputs, task.num_outputs = num_rows, num_inputs, num_outputs
    task.gated, task.type, task.isa, task.num_threads = gated, TYPES[x.dtype], isa, torch.get_num_threads()
    return task


def _add_out(task: Linear, x: Tensor, out: Tensor) -> None:
    assert len(out) == len(x)
    assert out.dtype == x.dtype
    assert _has_plain_rows(out)
    task.out, task.out_stride = out.data_ptr(), out.stride(0)


def _has_plain_rows(matrix: Tensor) -> bool:
    return matrix.stride(1) == 1 or matrix.shape[1] == 1
