"""Every parameter is filled exactly once, or the names are said."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from octavo.errors import CheckpointError, PluginError
from octavo.model.huggingface_config import from_huggingface
from octavo_models.layers import ParallelGroup, Part, WeightLayout
from octavo_models.llama import NAMES, LlamaLayer, LlamaModel
from octavo_models.loading.fill import fill_parameters
from octavo_models.loading.mapping import NameTable, Target
from octavo_models.testing import tiny_llama_config, tiny_llama_weights

Weights = dict[str, torch.Tensor]


def tiny_weights(**config: object) -> Weights:
    return {name: torch.from_numpy(value) for name, value in tiny_llama_weights(tiny_llama_config(**config), 0).items()}


def tiny_model(dtype: torch.dtype = torch.float32, **config: object) -> LlamaModel:
    return LlamaModel(from_huggingface(tiny_llama_config(**config)), dtype)


def test_all_parameters_hold_what_the_checkpoint_does() -> None:
    weights = tiny_weights()
    model = tiny_model()
    model.load_weights(weights.items())
    layer = model.get_submodule("layers.1")
    for fused, names in {
        "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "mlp.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
        "mlp.down": ("mlp.down_proj",),
        "input_norm": ("input_layernorm",),
    }.items():
        joined = torch.cat([weights[f"model.layers.1.{name}.weight"] for name in names])
        assert torch.equal(layer.get_submodule(fused).weight, joined)
    assert torch.equal(model.head.weight, weights["model.embed_tokens.weight"])


def test_other_types_are_converted() -> None:
    weights = tiny_weights()
    model = tiny_model(torch.bfloat16)
    model.load_weights(weights.items())
    assert torch.equal(model.norm.weight, weights["model.norm.weight"].bfloat16())


def test_missing_tensors_are_listed_by_their_names_in_the_checkpoint() -> None:
    weights = tiny_weights()
    del weights["model.layers.1.mlp.up_proj.weight"], weights["model.norm.weight"]
    with pytest.raises(CheckpointError, match=r"lacks tensors .*: model\.layers\.1\.mlp\.up_proj\.weight, model\.norm\.weight$"):
        tiny_model().load_weights(weights.items())


def test_many_missing_tensors_are_counted() -> None:
    with pytest.raises(CheckpointError, match=r"model\.embed_tokens\.weight, .* and 12 more"):
        tiny_model().load_weights({}.items())


def test_a_bias_that_the_configuration_does_not_have_is_unexpected() -> None:
    with pytest.raises(CheckpointError, match=r"no place for: model\.layers\.0\.self_attn\.q_proj\.bias, "):
        tiny_model().load_weights(tiny_weights(attention_bias=True).items())


def test_a_tensor_that_comes_twice_is_refused() -> None:
    weights = tiny_weights()
    twice = [*weights.items(), ("model.norm.weight", weights["model.norm.weight"])]
    with pytest.raises(CheckpointError, match=r"'model\.norm\.weight' twice"):
        tiny_model().load_weights(twice)


def test_a_shape_that_differs_is_refused_with_both_shapes() -> None:
    weights = tiny_weights() | {"model.norm.weight": torch.ones(1)}
    with pytest.raises(CheckpointError, match=r"'model\.norm\.weight' has shape \(1,\), the configuration asks for \(64,\)"):
        tiny_model().load_weights(weights.items())


def test_buffers_of_old_checkpoints_are_ignored() -> None:
    weights = tiny_weights() | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    tiny_model().load_weights(weights.items())


@pytest.mark.parametrize("has_head", [False, True])
def test_a_tied_head_is_the_embedding_whether_or_not_the_checkpoint_has_one(has_head: bool) -> None:
    weights = tiny_weights()
    if has_head:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    model = tiny_model()
    model.load_weights(weights.items())
    assert model.head.weight is model.embedding.weight
    assert model.head.weight.any()


def test_a_head_that_should_be_tied_but_holds_something_else_is_used(caplog: pytest.LogCaptureFixture) -> None:
    weights = tiny_weights() | {"lm_head.weight": torch.randn(512, 64)}
    model = tiny_model(torch.bfloat16)
    model.load_weights(weights.items())
    assert torch.equal(model.head.weight, weights["lm_head.weight"].bfloat16())
    assert torch.equal(model.embedding.weight, weights["model.embed_tokens.weight"].bfloat16())
    assert "lm_head.weight is used" in caplog.text
    with pytest.raises(CheckpointError, match=r"'lm_head\.weight' has shape \(3, 64\)"):
        tiny_model().load_weights((weights | {"lm_head.weight": torch.randn(3, 64)}).items())


def test_an_untied_head_is_its_own_and_must_be_there() -> None:
    weights = tiny_weights(tie_word_embeddings=False)
    model = tiny_model(tie_word_embeddings=False)
    model.load_weights(weights.items())
    assert torch.equal(model.head.weight, weights["lm_head.weight"])
    del weights["lm_head.weight"]
    with pytest.raises(CheckpointError, match=r"lacks tensors .*: lm_head\.weight$"):
        tiny_model(tie_word_embeddings=False).load_weights(weights.items())


def test_shards_of_a_layer_hold_their_heads() -> None:
    weights = {name: tensor for name, tensor in tiny_weights().items() if ".layers.0." in name}
    table = NameTable(
        modules={
            "self_attn.q_proj": Target("qkv", 0),
            "self_attn.k_proj": Target("qkv", 1),
            "self_attn.v_proj": Target("qkv", 2),
            "self_attn.o_proj": Target("output"),
            "input_layernorm": Target("input_norm"),
            "post_attention_layernorm": Target("mlp_norm"),
            "mlp.gate_proj": Target("mlp.gate_up", 0),
            "mlp.up_proj": Target("mlp.gate_up", 1),
            "mlp.down_proj": Target("mlp.down"),
        }
    )

    def named() -> Iterator[tuple[str, torch.Tensor]]:
        return ((name.removeprefix("model.layers.0."), tensor) for name, tensor in weights.items())

    config = from_huggingface(tiny_llama_config())
    for rank in range(2):
        group = ParallelGroup(rank, 2)
        layer = LlamaLayer(config, torch.float32, group)
        fill_parameters(layer, named(), table, num_layers=1, group=group)
        assert (layer.attention.num_heads, layer.attention.num_kv_heads) == (2, 1)
        _, key, _ = layer.qkv.weight.split([32, 16, 16])
        assert torch.equal(key, weights["model.layers.0.self_attn.k_proj.weight"][rank * 16 : rank * 16 + 16])
        assert torch.equal(layer.output.weight, weights["model.layers.0.self_attn.o_proj.weight"][:, rank * 32 : rank * 32 + 32])
        assert torch.equal(layer.mlp_norm.weight, weights["model.layers.0.post_attention_layernorm.weight"])


def test_missing_and_surplus_tensors_are_said_together_with_what_may_be_the_same() -> None:
    weights = tiny_weights()
    weights["model.layers.1.mlp.up.weight"] = weights.pop("model.layers.1.mlp.up_proj.weight")
    fault = (
        r"lacks tensors that the model needs: model\.layers\.1\.mlp\.up_proj\.weight \(is it model\.layers\.1\.mlp\.up\.weight\?\); "
        r"and it holds tensors that the model has no place for: model\.layers\.1\.mlp\.up\.weight$"
    )
    with pytest.raises(CheckpointError, match=fault):
        tiny_model().load_weights(weights.items())


@pytest.mark.parametrize("order", [1, -1], ids=["head first", "embedding first"])
def test_a_shared_weight_is_taken_under_either_name(order: int) -> None:
    weights = tiny_weights()
    head = {"lm_head.weight": torch.randn(512, 64)}
    model = tiny_model()
    model.load_weights(list({**head, **weights}.items())[::order])
    assert torch.equal(model.head.weight, head["lm_head.weight"])
    assert torch.equal(model.embedding.weight, weights["model.embed_tokens.weight"])
    del weights["model.embed_tokens.weight"]
    model = tiny_model()
    model.load_weights({**head, **weights}.items())
    assert model.head.weight is model.embedding.weight
    assert torch.equal(model.embedding.weight, head["lm_head.weight"])


class Scale(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size), requires_grad=False)

    def layout(self, parameter: str) -> WeightLayout:
        return WeightLayout(parts=(Part(4),))


def test_two_tensors_of_one_weight_must_be_the_same() -> None:
    model = nn.ModuleDict({"one": Scale(4), "other": Scale(4)})
    model["other"].weight = model["one"].weight
    table = NameTable(modules={"a": Target("one"), "b": Target("other")})
    fill_parameters(model, [("b.weight", torch.ones(4)), ("a.weight", torch.ones(4))], table, num_layers=0)
    with pytest.raises(CheckpointError, match=r"tensor 'b\.weight' differs from the one that fills 'other\.weight'"):
        fill_parameters(model, [("b.weight", torch.ones(4)), ("a.weight", torch.zeros(4))], table, num_layers=0)


GATE, UP = "model.layers.{}.mlp.gate_proj", "model.layers.{}.mlp.up_proj"
WRONG_TABLES = {
    "no entry": (
        NAMES.changed({}, without=("model.layers.{}.mlp.down_proj",)),
        r"has no entry for layers\.0\.mlp\.down\.weight, layers\.1\.mlp\.down\.weight$",
    ),
    "no such module": (
        NAMES.changed({GATE: Target("layers.{}.mlp.gate_and_up", 0)}),
        (
            r"'model\.layers\.0\.mlp\.gate_proj' to 'layers\.0\.mlp\.gate_and_up', but layers\.0\.mlp, a GatedMLP, has no module "
            r"'gate_and_up': there are gate_up, down; did you mean 'gate_up'\?"
        ),
    ),
    "nothing like it": (
        NAMES.changed({"model.norm": Target("ending")}),
        "but the model, a LlamaModel, has no module 'ending': there are embedding",
    ),
    "a layer's number left out": (
        NAMES.changed({"model.norm": Target("layers.{}.norm")}),
        "to 'layers.None.norm', but layers, a ModuleList",
    ),
    "a module of modules": (
        NAMES.changed({GATE: Target("layers.{}.mlp", 0)}),
        r"'layers\.0\.mlp', a GatedMLP, which has no weights of its own: they are in layers\.0\.mlp\.gate_up, layers\.0\.mlp\.down",
    ),
    "no such part": (
        NAMES.changed({UP: Target("layers.{}.mlp.gate_up", 2)}),
        r"to part 2 of .*'layers\.0\.mlp\.gate_up', whose weight has 2",
    ),
    "the same part twice": (
        NAMES.changed({UP: Target("layers.{}.mlp.gate_up", 0)}),
        r"'model\.layers\.0\.mlp\.gate_proj\.weight' and 'model\.layers\.0\.mlp\.up_proj\.weight' to the same part",
    ),
    "a part left out": (NAMES.changed({}, without=(UP,)), r"fills 128 of 256 rows of 'layers\.0\.mlp\.gate_up\.weight'"),
}


@pytest.mark.parametrize(("table", "fault"), WRONG_TABLES.values(), ids=WRONG_TABLES)
def test_a_wrong_table_is_said_to_be_wrong(table: NameTable, fault: str) -> None:
    with pytest.raises(PluginError, match=fault):
        fill_parameters(tiny_model(), [], table, num_layers=2)


def test_a_module_without_a_layout_or_with_a_wrong_one_is_named() -> None:
    table = NameTable(modules={"a": Target("scale")})
    with pytest.raises(PluginError, match=r"sends 'a' to 'scale', a LayerNorm, which does not say how its weights are laid out"):
        fill_parameters(nn.ModuleDict({"scale": nn.LayerNorm(4)}), [], table, num_layers=0)
    with pytest.raises(PluginError, match=r"scale\.weight has shape \(3,\), but its layout says \(4,\)"):
        fill_parameters(nn.ModuleDict({"scale": Scale(3)}), [], table, num_layers=0)
