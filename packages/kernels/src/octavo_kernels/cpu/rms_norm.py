"""Root mean square normalisation in C++."""

import ctypes

import torch
from torch import Tensor

from octavo_kernels.cpu.abi import TYPES, Heads, RmsNorm
from octavo_kernels.cpu.calls import submit
from octavo_kernels.cpu.isa import Isa


def rms_norm(library: ctypes.CDLL, x: Tensor, weight: Tensor, eps: float, *, offset: float, isa: Isa) -> Tensor:
    """x / sqrt(mean(x²) + eps) * (offset + weight) over the last dimension, in float32.

    Args:
        library: from `load_library`.
        x: [..., E]; what is neither contiguous nor [N, E] nor [N, H, E] with a contiguous last dimension is copied.
        weight: [E], contiguous, of x's type.
        eps: keeps rows of zeros finite.
        offset: 1 for models that store weights less one.
        isa: one that this host runs.

    Returns:
        [..., E], contiguous, of x's type.
    """
    out = torch.empty(x.shape, dtype=x.dtype)
    _run(library, x, weight, out, None, None, eps, offset, isa)
    return out


def add_rms_norm(
    library: ctypes.CDLL, x: Tensor, residual: Tensor, weight: Tensor, eps: float, *, offset: float, isa: Isa
) -> tuple[Tensor, Tensor]:
    """The norm of x + residual, and that sum, rounded; both as `rms_norm` returns it. Residual is of x's shape and type."""
    assert x.shape == residual.shape
    assert x.dtype == residual.dtype
    out, total = torch.empty(x.shape, dtype=x.dtype), torch.empty(x.shape, dtype=x.dtype)
    _run(library, x, weight, out, residual.contiguous(), total, eps, offset, isa)
    return out, total


def _run(
    library: ctypes.CDLL,
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    residual: Tensor | None,
    total: Tensor | None,
    eps: float,
    offset: float,
    isa: Isa,
) -> None:
    width = x.shape[-1]
    assert x.dtype == weight.dtype
    assert weight.shape == (width,)
    assert weight.is_contiguous()
    readable = x if _is_readable(x) else x.contiguous()
    rows, num_heads = _describe(readable)
    task = RmsNorm(
        rows,
        None if residual is None else residual.data_ptr(),
        None if total is None else total.data_ptr(),
        weight.data_ptr(),
        out.data_ptr(),
        x.numel() // width,
        num_heads,
        width,
        eps,
        offset,
        TYPES[x.dtype],
        isa,
        torch.get_num_threads(),
    )
    submit(library.octavo_rms_norm, task, "rms_norm")


def _describe(x: Tensor) -> tuple[Heads, int]:
    """Rows [N, H, E] of x, and H."""
    if x.is_contiguous():
        return Heads(x.data_ptr(), x.shape[-1], 0), 1
    if x.ndim == 2:
        return Heads(x.data_ptr(), x.stride(0), 0), 1
    return Heads(x.data_ptr(), x.stride(0), x.stride(1)), x.shape[1]


def _is_readable(x: Tensor) -> bool:
    return x.is_contiguous() or (x.ndim in {2, 3} and x.stride(-1) == 1)
