"""The gated MLP against its formula."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from octavo_models.layers import GatedMLP


def gelu_tanh(x: Tensor) -> Tensor:
    return x / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(("activation", "function"), [("silu", functional.silu), ("gelu_tanh", gelu_tanh)])
def test_equals_its_formula_with_and_without_residual(activation: str, function: Callable[[Tensor], Tensor]) -> None:
    mlp = GatedMLP(8, 12, activation=activation, dtype=torch.float32)
    for parameter in mlp.parameters():
        parameter.data.normal_()
    gate, up = mlp.gate_up.weight.chunk(2)
    x, residual = torch.randn(5, 8), torch.randn(5, 8)
    expected = (function(x @ gate.T) * (x @ up.T)) @ mlp.down.weight.T
    torch.testing.assert_close(mlp(x), expected)
    torch.testing.assert_close(mlp.add(x, residual), residual + expected)
