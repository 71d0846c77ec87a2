"""Every parameter is filled exactly once, or the names are said."""

from collections.abc import Iterator

import pytest
import torch

from octavo.errors import CheckpointError
from octavo.model.huggingface_config import from_huggingface
from octavo_models.layers import ParallelGroup
from octavo_models.llama import LlamaLayer, LlamaModel
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
    with pytest.raises(CheckpointError, match=r"the head has shape \(3, 64\)"):
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


def test_a_table_that_forgets_a_parameter_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="no entry for"):
        fill_parameters(tiny_model(), [], NameTable(modules={"model.norm": Target("norm")}), num_layers=2)
