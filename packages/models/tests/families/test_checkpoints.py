"""What checkpoints of the families hold: heads, tied or not, shards of ranks, and GGUF files of the same weights."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from octavo.errors import CheckpointError
from octavo_models.layers import MixtureOfExperts, ParallelGroup
from octavo_models.llama import LlamaLayer
from octavo_models.loading.fill import fill_parameters
from octavo_models.loading.mapping import NameTable
from octavo_models.testing import write_gguf_model
from octavo_models.testing.conformance import ModelUnderTest, chunked_logits
from octavo_models.testing.dense import load_tiny_model

ReadFamily = Callable[..., ModelUnderTest]
TOKENS = torch.arange(3, 40)

pytestmark = pytest.mark.filterwarnings("ignore")


def changed(reference: Any, folder: Path, *, settings: dict[str, Any], tensors: dict[str, Tensor | None]) -> Path:
    """A copy of a checkpoint with other fields and other tensors, None for those that are left out."""
    shutil.copytree(reference.folder, folder)
    config = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    weights = load_file(folder / "model.safetensors") | tensors
    save_file({name: tensor for name, tensor in weights.items() if tensor is not None}, folder / "model.safetensors", {"format": "pt"})
    return folder


def transformers_logits(folder: Path) -> Tensor:
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    with torch.inference_mode():
        logits: Tensor = model(TOKENS[None]).logits[0]
    return logits


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("head", ["none", "its own", "the embedding"])
def test_heads_are_those_of_transformers(reference: Callable[..., Any], tmp_path: Path, *, tied: bool, head: str) -> None:
    source = reference("qwen3")
    embedding = source.model.model.embed_tokens.weight.detach()
    given = {"none": None, "its own": source.model.lm_head.weight.detach(), "the embedding": embedding.clone()}[head]
    folder = changed(source, tmp_path / "copy", settings={"tie_word_embeddings": tied}, tensors={"lm_head.weight": given})
    if not tied and given is None:
        with pytest.raises(CheckpointError, match=r"lm_head\.weight"):
            load_tiny_model(folder)
        return
    actual = chunked_logits(load_tiny_model(folder), TOKENS, [len(TOKENS)])
    torch.testing.assert_close(actual, transformers_logits(folder), rtol=0, atol=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_a_flag_that_only_the_text_model_has_is_honoured(reference: Callable[..., Any], tmp_path: Path, *, tied: bool) -> None:
    source = reference("qwen2", tie_word_embeddings=tied)
    folder = changed(
        source, tmp_path / "copy", settings={"tie_word_embeddings": None, "text_config": {"tie_word_embeddings": tied}}, tensors={}
    )
    model = load_tiny_model(folder)
    assert model.config.tie_embeddings is tied
    torch.testing.assert_close(chunked_logits(model, TOKENS, [len(TOKENS)]), source.logits(TOKENS), rtol=0, atol=1e-4)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "qwen3_moe", "phi3"])
def test_shards_of_a_layer_join_to_the_whole(reference: Callable[..., Any], read_family: ReadFamily, family: str, size: int) -> None:
    whole = read_family(reference(family).folder, family)
    layer = whole.build().layers[0]
    assert isinstance(layer, LlamaLayer)
    shards = [shard(whole, ParallelGroup(rank, size)) for rank in range(size)]
    carry = (torch.randn(5, whole.config.hidden_size),)
    rotary = whole.build().rotary_table(5)
    inputs, _ = layer.before(torch.arange(5), rotary, carry)
    local = [part.before(torch.arange(5), rotary, carry)[0] for part in shards]
    torch.testing.assert_close(torch.cat([part.query for part in local], dim=1), inputs.query, rtol=0, atol=1e-5)
    # Fewer KV heads than ranks: neighbours hold the same one.
    copies = max(1, size // whole.config.num_kv_heads)
    torch.testing.assert_close(torch.cat([part.key for part in local[::copies]], dim=1), inputs.key, rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.cat([part.value for part in local[::copies]], dim=1), inputs.value, rtol=0, atol=1e-5)
    x = torch.randn(5, whole.config.hidden_size)
    terms = sum(part.mlp.add(x, torch.zeros(5, whole.config.hidden_size)) for part in shards)
    torch.testing.assert_close(terms, layer.mlp.add(x, torch.zeros_like(x)), rtol=0, atol=1e-4)


def shard(model: ModelUnderTest, group: ParallelGroup) -> LlamaLayer:
    """The first layer as one rank holds it."""
    config = model.config
    mlp = None if config.experts is None else MixtureOfExperts(config.hidden_size, config.experts, dtype=torch.float32, group=group)
    holder = nn.Module()
    holder.layers = nn.ModuleList([LlamaLayer(config, torch.float32, group, mlp=mlp)])
    names: NameTable = model.model_class.names  # type: ignore[attr-defined]
    table = NameTable(modules={name: target for name, target in names.modules.items() if name.startswith("model.layers.")})
    weights = [(name, tensor) for name, tensor in model.weights.items() if name.startswith("model.layers.0.")]
    num_experts = 0 if config.experts is None else config.experts.num_experts
    fill_parameters(holder, weights, table, num_layers=1, num_experts=num_experts, group=group)
    return holder.layers[0]


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_gguf_files_give_the_logits_of_transformers(reference: Callable[..., Any], tmp_path: Path, family: str) -> None:
    source = reference(family, tie_word_embeddings=family == "qwen3")
    settings = json.loads((source.folder / "config.json").read_text())
    weights = {name: tensor.numpy() for name, tensor in load_file(source.folder / "model.safetensors").items()}
    expected = source.logits(TOKENS)
    for quantization, tolerance in {"F32": 1e-4, "F16": 1e-2 * float(expected.abs().max())}.items():
        model = load_tiny_model(write_gguf_model(tmp_path / f"{quantization}.gguf", settings, weights, quantization=quantization))
        assert model.config.architecture == family
        actual = chunked_logits(model, TOKENS, [len(TOKENS)])
        torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)
