"""The C++ ops as torch's, in the namespace `octavo`: opaque to compilers, with their shapes known. `octavo_kernels.ops` calls them.

Tensors are taken as the functions of `octavo_kernels.cpu` take them; there is no gradient.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from octavo_kernels.cpu import gate as cpu_gate
from octavo_kernels.cpu import linear as cpu_linear
from octavo_kernels.cpu import rms_norm as cpu_norm
from octavo_kernels.cpu import rotate as cpu_rotate
from octavo_kernels.cpu.isa import Isa
from octavo_kernels.native import Native, load_native


def _native() -> Native:
    native = load_native()
    assert native is not None, "ops are called where the library is"
    return native


def rms_norm(x: Tensor, weight: Tensor, eps: float, offset: float) -> Tensor:
    """`cpu.rms_norm.rms_norm` with the library of this host."""
    native = _native()
    return cpu_norm.rms_norm(native.library, x, weight, eps, offset=offset, isa=native.isa)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float, offset: float) -> tuple[Tensor, Tensor]:
    """`cpu.rms_norm.add_rms_norm`, likewise."""
    native = _native()
    return cpu_norm.add_rms_norm(native.library, x, residual, weight, eps, offset=offset, isa=native.isa)


def rotate(query: Tensor, key: Tensor, positions: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """`cpu.rotate.rotate` into new tensors, likewise."""
    native = _native()
    query_out, key_out = torch.empty(query.shape, dtype=query.dtype), torch.empty(key.shape, dtype=key.dtype)
    cpu_rotate.rotate(native.library, query, key, positions, table, query_out, key_out, isa=native.isa)
    return query_out, key_out


def gate(gate_and_up: Tensor, activation: str) -> Tensor:
    """`cpu.gate.gate`, likewise."""
    native = _native()
    return cpu_gate.gate(native.library, gate_and_up, activation, isa=native.isa)


def linear(x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, num_outputs: int, isa: int) -> Tensor:
    """`cpu.linear.linear` into a new tensor [N, num_outputs]; `isa` is a number of `Isa`."""
    out = x.new_empty((len(x), num_outputs))
    linear_out(x, packed, bias, residual, out, isa)
    return out


def linear_out(x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, out: Tensor, isa: int) -> None:
    """`cpu.linear.linear` into `out`."""
    cpu_linear.linear(_native().library, _rows(x), packed, bias, out, residual=residual, isa=Isa(isa))


def linear_gated(x: Tensor, packed: Tensor, bias: Tensor | None, num_outputs: int, activation: str, isa: int) -> Tensor:
    """`cpu.linear.linear_gated` into a new tensor [N, num_outputs]."""
    out = x.new_empty((len(x), num_outputs))
    linear_gated_out(x, packed, bias, out, activation, isa)
    return out


def linear_gated_out(x: Tensor, packed: Tensor, bias: Tensor | None, out: Tensor, activation: str, isa: int) -> None:
    """`cpu.linear.linear_gated` into `out`."""
    cpu_linear.linear_gated(_native().library, _rows(x), packed, bias, out, activation, isa=Isa(isa))


def linear_largest(x: Tensor, packed: Tensor, bias: Tensor | None, num_outputs: int, isa: int) -> Tensor:
    """`cpu.linear.linear_largest`."""
    return cpu_linear.linear_largest(_native().library, _rows(x), packed, bias, num_outputs, isa=Isa(isa))


def _rows(x: Tensor) -> Tensor:
    """[N, I] whose rows are contiguous."""
    return x if x.stride(1) == 1 else x.contiguous()


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _fake_rms_norm(x: Tensor, weight: Tensor, eps: float, offset: float) -> Tensor:  # noqa: ARG001
    return _like(x)


def _fake_add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float, offset: float) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return _like(x), _like(x)


def _fake_rotate(query: Tensor, key: Tensor, positions: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return _like(query), _like(key)


def _fake_gate(gate_and_up: Tensor, activation: str) -> Tensor:  # noqa: ARG001
    return gate_and_up.new_empty((*gate_and_up.shape[:-1], gate_and_up.shape[-1] // 2))


def _fake_linear(x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, num_outputs: int, isa: int) -> Tensor:  # noqa: ARG001
    return x.new_empty((x.shape[0], num_outputs))


def _fake_linear_gated(x: Tensor, packed: Tensor, bias: Tensor | None, num_outputs: int, activation: str, isa: int) -> Tensor:  # noqa: ARG001
    return x.new_empty((x.shape[0], num_outputs))


def _fake_linear_largest(x: Tensor, packed: Tensor, bias: Tensor | None, num_outputs: int, isa: int) -> Tensor:  # noqa: ARG001
    return x.new_empty((x.shape[0],), dtype=torch.int64)


def _fake_nothing(*arguments: object) -> None:
    """For what writes into a tensor that is given."""


OPS: dict[str, tuple[str, Callable[..., object], Callable[..., object]]] = {
    "rms_norm": ("(Tensor x, Tensor weight, float eps, float offset) -> Tensor", rms_norm, _fake_rms_norm),
    "add_rms_norm": (
        "(Tensor x, Tensor residual, Tensor weight, float eps, float offset) -> (Tensor, Tensor)",
        add_rms_norm,
        _fake_add_rms_norm,
    ),
    "rotate": ("(Tensor query, Tensor key, Tensor positions, Tensor table) -> (Tensor, Tensor)", rotate, _fake_rotate),
    "gate": ("(Tensor gate_and_up, str activation) -> Tensor", gate, _fake_gate),
    "linear": (
        "(Tensor x, Tensor packed, Tensor? bias, Tensor? residual, SymInt num_outputs, int isa) -> Tensor",
        linear,
        _fake_linear,
    ),
    "linear_out": (
        "(Tensor x, Tensor packed, Tensor? bias, Tensor? residual, Tensor(a!) out, int isa) -> ()",
        linear_out,
        _fake_nothing,
    ),
    "linear_gated": (
        "(Tensor x, Tensor packed, Tensor? bias, SymInt num_outputs, str activation, int isa) -> Tensor",
        linear_gated,
        _fake_linear_gated,
    ),
    "linear_gated_out": (
        "(Tensor x, Tensor packed, Tensor? bias, Tensor(a!) out, str activation, int isa) -> ()",
        linear_gated_out,
        _fake_nothing,
    ),
    "linear_largest": (
        "(Tensor x, Tensor packed, Tensor? bias, SymInt num_outputs, int isa) -> Tensor",
        linear_largest,
        _fake_linear_largest,
    ),
}
"""Name -> schema, implementation on a CPU, and shapes alone."""

for _name, (_schema, _on_a_cpu, _fake) in OPS.items():
    torch.library.define(f"octavo::{_name}", _schema, tags=torch.Tag.pt2_compliant_tag)
    torch.library.impl(f"octavo::{_name}", "cpu", _on_a_cpu)
    torch.library.register_fake(f"octavo::{_name}", _fake)
