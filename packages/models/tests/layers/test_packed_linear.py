"""Packed layers against plain ones, weights from outside, and what is left of the plain weights."""

import pytest
import torch
from torch.func import functional_call

from octavo_kernels.native import load_native
from octavo_models.layers import Linear, ParallelGroup, UnquantizedLinear, VocabularyEmbedding, VocabularyHead
from octavo_models.layers.packed_linear import PackedLinear

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


@pytest.fixture
def method() -> PackedLinear:
    native = load_native()
    if native is None:
        pytest.skip("the C++ library was not built")
    return PackedLinear(native.isa)


def filled(layer: Linear, seed: int = 0) -> Linear:
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        parameter.data.normal_(generator=generator)
    return layer


def packed(layer: Linear, method: PackedLinear) -> Linear:
    layer.method = method
    method.finish_loading(layer)
    return layer


def check(result: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = TOLERANCE[result.dtype]
    torch.testing.assert_close(result, expected, atol=tolerance * 4, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
def test_products_and_sums_are_those_of_plain_layers(method: PackedLinear, dtype: torch.dtype, bias: bool) -> None:
    plain = filled(Linear(24, [40, 7], split="column", bias=bias, dtype=dtype))
    layer = packed(filled(Linear(24, [40, 7], split="column", bias=bias, dtype=dtype)), method)
    x, residual = torch.randn(5, 24).to(dtype), torch.randn(5, 47).to(dtype)
    check(layer(x), plain(x))
    check(layer.add(x, residual), plain.add(x, residual))
    assert torch.equal(layer.largest(x), layer(x).float().argmax(dim=1))
    assert [part.shape for part in layer.separate(x)] == [(5, 40), (5, 7)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gates_are_those_of_plain_layers(method: PackedLinear, dtype: torch.dtype, activation: str) -> None:
    plain, layer = (filled(Linear(8, [20, 20], split="column", gated=True, bias=True, dtype=dtype)) for _ in range(2))
    x = torch.randn(5, 8).to(dtype)
    check(packed(layer, method).gated(x, activation), plain.gated(x, activation))


def test_the_packed_weights_take_the_place_of_the_plain_ones(method: PackedLinear) -> None:
    layer = packed(filled(Linear(32, [64], split="column", bias=True, dtype=torch.float16)), method)
    assert {name: parameter.dtype for name, parameter in layer.named_parameters()} == {"bias": torch.float16, "packed": torch.uint8}
    assert not layer.packed.requires_grad
    assert layer.packed.nbytes == 32 * 64 * 2


def test_weights_of_another_layer_can_be_passed_in(method: PackedLinear) -> None:
    layers = [packed(filled(Linear(8, [6], split="column", bias=True, dtype=torch.float32), seed), method) for seed in (0, 1)]
    x = torch.randn(5, 8)
    assert torch.equal(functional_call(layers[0], dict(layers[1].named_parameters()), (x,)), layers[1](x))


def test_layers_that_are_announced_share_one_piece_of_memory(method: PackedLinear) -> None:
    layers = [filled(Linear(8, [6], split="column", dtype=torch.float32), seed) for seed in (0, 1)]
    expected = [layer.weight.data.clone() for layer in layers]
    method.reserve(layers)
    for layer in layers:
        packed(layer, method)
    assert len({layer.packed.untyped_storage().data_ptr() for layer in layers}) == 1
    x = torch.randn(5, 8)
    for layer, weight in zip(layers, expected, strict=True):
        torch.testing.assert_close(layer(x), x @ weight.T)


def test_a_tied_head_is_packed_beside_the_embedding(method: PackedLinear) -> None:
    embedding = VocabularyEmbedding(50, 8, dtype=torch.float32)
    embedding.weight.data.normal_()
    head = packed(VocabularyHead(embedding, tied=True, dtype=torch.float32), method)
    hidden = torch.randn(3, 8)
    torch.testing.assert_close(head(hidden), hidden @ embedding.weight.T)
    assert embedding.weight.shape == (50, 8)


def test_only_the_first_rank_adds_the_bias(method: PackedLinear) -> None:
    layers = [
        packed(filled(Linear(8, [6], split="row", bias=True, dtype=torch.float32, group=ParallelGroup(rank, 2))), method) for rank in (0, 1)
    ]
    nothing = torch.zeros(1, 4)
    assert torch.equal(layers[0](nothing)[0], layers[0].bias)
    assert not layers[1](nothing).any()


def test_a_residual_of_another_type_is_added_as_torch_does(method: PackedLinear) -> None:
    plain, layer = (filled(Linear(8, [6], split="row", dtype=torch.bfloat16)) for _ in range(2))
    x, residual = torch.randn(2, 8).bfloat16(), torch.randn(2, 6)
    result = packed(layer, method).add(x, residual)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, plain.add(x, residual), atol=3e-2, rtol=3e-2)


def test_the_largest_output_is_found_by_any_method() -> None:
    layer = filled(Linear(8, [60], split="column", dtype=torch.float32))
    assert isinstance(layer.method, UnquantizedLinear)
    x = torch.randn(4, 8)
    assert torch.equal(layer.largest(x), layer(x).argmax(dim=1))
    x[1] = torch.nan
    assert layer.largest(x)[1] == -1


def test_a_compiler_sees_one_op(method: PackedLinear) -> None:
    layer = packed(filled(Linear(8, [20, 20], split="column", gated=True, dtype=torch.float32)), method)
    targets: list[str] = []

    def keep(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        targets.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    torch._dynamo.reset()
    x = torch.randn(5, 8)
    compiled = torch.compile(lambda x: layer.gated(x, "silu"), backend=keep, fullgraph=True)
    assert torch.equal(compiled(x), layer.gated(x, "silu"))
    assert targets == ["octavo.linear_gated"]
