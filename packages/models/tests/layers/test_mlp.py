"""The gated MLP against its formula."""

import torch
from torch.nn import functional

from octavo_models.layers import GatedMLP


def test_equals_its_formula_with_and_without_residual() -> None:
    mlp = GatedMLP(8, 12, dtype=torch.float32)
    for parameter in mlp.parameters():
        parameter.data.normal_()
    gate, up = mlp.gate_up.weight.chunk(2)
    x, residual = torch.randn(5, 8), torch.randn(5, 8)
    expected = (functional.silu(x @ gate.T) * (x @ up.T)) @ mlp.down.weight.T
    torch.testing.assert_close(mlp(x), expected)
    torch.testing.assert_close(mlp.add(x, residual), residual + expected)
