"""Linear layers with packed weights, multiplied in C++ on a CPU."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from octavo_kernels import library
from octavo_kernels.cpu.isa import Isa
from octavo_kernels.cpu.linear import pack, packed_bytes
from octavo_kernels.cpu.memory import LargePages
from octavo_kernels.native import is_plain, load_native
from octavo_models.layers.linear import Linear, LinearMethod, UnquantizedLinear


class PackedLinear(LinearMethod):
    """`packed` uint8 in place of `weight`, and `bias` as it was. Sums are in float32 and rounded once, after what is fused with them;
    a row gives the same bits in any batch and with any number of threads.

    Args:
        isa: that this host runs; the library must be there.
    """

    def __init__(self, isa: Isa) -> None:
        self._isa = isa
        self._pages: LargePages | None = None

    def create_weights(self, layer: Linear, dtype: torch.dtype) -> None:
        UnquantizedLinear().create_weights(layer, dtype)

    def reserve(self, layers: Sequence[Linear]) -> None:
        self._pages = LargePages(_library(), [self._packed_bytes(layer) for layer in layers])

    def finish_loading(self, layer: Linear) -> None:
        pages = self._pages or LargePages(_library(), [self._packed_bytes(layer)])
        packed = pages.take(self._packed_bytes(layer))
        pack(_library(), layer.weight.data, packed, isa=self._isa, gated=layer.is_gated)
        if pages.is_used_up:
            self._pages = None
        layer.packed_dtype = layer.weight.dtype
        del layer.weight
        layer.packed = nn.Parameter(packed, requires_grad=False)

    def apply(self, layer: Linear, x: Tensor) -> Tensor:
        return _multiply(layer, x, None, int(self._isa))

    def apply_add(self, layer: Linear, x: Tensor, residual: Tensor) -> Tensor:
        if residual.dtype != x.dtype:
            return super().apply_add(layer, x, residual)
        return _multiply(layer, x, residual, int(self._isa))

    def apply_gated(self, layer: Linear, x: Tensor, activation: str) -> Tensor:
        assert layer.is_gated
        assert x.dtype == layer.packed_dtype
        run = library.linear_gated if is_plain(x) else torch.ops.octavo.linear_gated
        gated: Tensor = run(x, layer.packed, _bias(layer), layer.num_outputs // 2, activation, int(self._isa))
        return gated

    def apply_largest(self, layer: Linear, x: Tensor) -> Tensor:
        assert not layer.is_gated
        assert x.dtype == layer.packed_dtype
        run = library.linear_largest if is_plain(x) else torch.ops.octavo.linear_largest
        largest: Tensor = run(x, layer.packed, _bias(layer), layer.num_outputs, int(self._isa))
        return largest

    def _packed_bytes(self, layer: Linear) -> int:
        num_outputs, num_inputs = layer.weight.shape
        return packed_bytes(_library(), num_outputs, num_inputs, layer.weight.dtype, isa=self._isa, gated=layer.is_gated)


def _multiply(layer: Linear, x: Tensor, residual: Tensor | None, isa: int) -> Tensor:
    assert not layer.is_gated, "gates and what they are multiplied with lie between each other"
    assert x.dtype == layer.packed_dtype
    run = library.linear if is_plain(x) else torch.ops.octavo.linear
    out: Tensor = run(x, layer.packed, _bias(layer), residual, layer.num_outputs, isa)
    return out


def _bias(layer: Linear) -> Tensor | None:
    return layer.bias if layer.adds_bias else None


def _library() -> ctypes.CDLL:
    native = load_native()
    assert native is not None, "the method is chosen where the library is"
    return native.library
