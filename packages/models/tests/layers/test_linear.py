"""Linear layers compose from one product, split over ranks and take their weights from outside."""

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional

from octavo.errors import ConfigurationError
from octavo_models.layers import Linear, LinearMethod, ParallelGroup, Part, UnquantizedLinear
from octavo_models.layers.parallel import empty_parameter

DTYPE = torch.float32


def filled(layer: Linear, seed: int = 0) -> Linear:
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        parameter.data.normal_(generator=generator)
    return layer


class TransposedLinear(LinearMethod):
    """Replaces the parameter after loading, as methods that pack do."""

    def create_weights(self, layer: Linear, dtype: torch.dtype) -> None:
        UnquantizedLinear().create_weights(layer, dtype)

    def finish_loading(self, layer: Linear) -> None:
        packed = layer.weight.data.t().contiguous()
        del layer.weight
        layer.packed = torch.nn.Parameter(packed, requires_grad=False)

    def apply(self, layer: Linear, x: torch.Tensor) -> torch.Tensor:
        return x @ layer.packed


def test_add_and_gated_are_compositions_of_the_product() -> None:
    layer = filled(Linear(8, [6, 6], split="column", gated=True, dtype=DTYPE))
    x, residual = torch.randn(5, 8), torch.randn(5, 12)
    product = x @ layer.weight.T
    torch.testing.assert_close(layer.add(x, residual), residual + product)
    torch.testing.assert_close(layer.gated(x, "silu"), functional.silu(product[:, :6]) * product[:, 6:])


def test_add_leaves_the_residual_as_it_was() -> None:
    layer = filled(Linear(4, [4], split="row", dtype=DTYPE))
    residual = torch.zeros(2, 4)
    layer.add(torch.randn(2, 4), residual)
    assert not residual.any()


def test_separate_gives_each_projection_a_view() -> None:
    layer = filled(Linear(8, [Part(12, 4), Part(4, 4), Part(4, 4)], split="column", dtype=DTYPE))
    query, key, value = layer.separate(torch.randn(3, 8))
    assert (query.shape, key.shape, value.shape) == ((3, 12), (3, 4), (3, 4))
    assert query.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()


def test_weights_ask_for_no_gradient() -> None:
    layer = Linear(8, [6], split="column", bias=True, dtype=DTYPE)
    assert [name for name, parameter in layer.named_parameters() if parameter.requires_grad] == []


def test_row_shards_sum_to_the_whole_and_the_bias_counts_once() -> None:
    whole = filled(Linear(8, [6], split="row", bias=True, dtype=DTYPE))
    x = torch.randn(5, 8)
    terms = []
    for rank in range(2):
        shard = Linear(8, [6], split="row", bias=True, dtype=DTYPE, group=ParallelGroup(rank, 2))
        shard.weight.data.copy_(whole.weight[:, rank * 4 : rank * 4 + 4])
        shard.bias.data.copy_(whole.bias)
        terms.append(shard(x[:, rank * 4 : rank * 4 + 4]))
    torch.testing.assert_close(terms[0] + terms[1], whole(x))


def test_a_method_may_replace_parameters_after_loading_and_they_still_pass_from_outside() -> None:
    plain = filled(Linear(8, [6], split="column", dtype=DTYPE), seed=1)
    layers = [filled(Linear(8, [6], split="column", dtype=DTYPE, method=TransposedLinear()), seed) for seed in (0, 1)]
    for layer in layers:
        layer.method.finish_loading(layer)
    x = torch.randn(5, 8)
    torch.testing.assert_close(functional_call(layers[0], dict(layers[1].named_parameters()), (x,)), plain(x))


def test_parts_that_ranks_cannot_share_evenly_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="3 heads or rows cannot be split evenly over 2 ranks"):
        Linear(8, [Part(12, 4)], split="column", dtype=DTYPE, group=ParallelGroup(0, 2))


def test_empty_parameters_follow_the_default_device() -> None:
    with torch.device("meta"):
        assert empty_parameter((2, 3), DTYPE).is_meta
