"""Llama against Transformers, and the promises that pieces make."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from octavo_models.llama import LlamaLayer
from octavo_models.model import PiecewiseModel
from octavo_models.testing import write_tiny_llama
from octavo_models.testing.dense import dense_logits, load_tiny_model

LLAMA3 = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "rope_parameters, default": {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    "linear, rope_scaling with type": {"rope_scaling": {"type": "linear", "factor": 2.0}},
    "linear, rope_scaling with rope_type": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "linear, rope_parameters": {"rope_theta": None, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}},
    "llama3, rope_scaling with type": {"rope_scaling": LLAMA3 | {"type": "llama3"}},
    "llama3, rope_scaling with rope_type": {"rope_scaling": LLAMA3 | {"rope_type": "llama3"}},
    "llama3, rope_parameters": {"rope_theta": None, "rope_parameters": LLAMA3 | {"rope_type": "llama3", "rope_theta": 10_000.0}},
    "untied head": {"tie_word_embeddings": False},
    "two shards": {"shards": 2},
    "one KV head a query head": {"num_key_value_heads": 4},
    "one KV head": {"num_key_value_heads": 1},
    "attention bias": {"attention_bias": True},
    "MLP bias": {"mlp_bias": True},
    "heads wider than the hidden size": {"head_dim": 32},
    "Mistral with a window": {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 8},
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def tiny_model(tmp_path: Path) -> PiecewiseModel:
    return load_tiny_model(write_tiny_llama(tmp_path / "tiny", num_hidden_layers=3))


def transformers_logits(folder: Path, token_ids: Tensor) -> Tensor:
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import load_file

    settings = json.loads((folder / "config.json").read_text())
    family = {"llama": "Llama", "mistral": "Mistral"}[settings["model_type"]]
    config = getattr(transformers, f"{family}Config")(**settings, attn_implementation="eager")
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    weights = {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}
    weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
    model.load_state_dict(weights)
    with torch.inference_mode():
        logits: Tensor = model(token_ids[None]).logits[0]
    return logits


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_logits_equal_those_of_transformers(tmp_path: Path, case: str) -> None:
    folder = write_tiny_llama(tmp_path / "tiny", **CASES[case])
    token_ids = torch.randint(0, 512, (80,), generator=torch.Generator().manual_seed(1))
    expected = transformers_logits(folder, token_ids)
    torch.testing.assert_close(dense_logits(load_tiny_model(folder), token_ids), expected, rtol=0, atol=1e-4)


def test_the_first_layer_with_the_weights_of_another_equals_that_other(tiny_model: PiecewiseModel) -> None:
    positions = torch.arange(6)
    carry = (torch.randn(6, 64),)
    attended = torch.randn(6, 4, 16)
    rotary = tiny_model.rotary_table(6)
    first = Pieces(tiny_model.layers[0])
    for layer in tiny_model.layers:
        weights = dict(Pieces(layer).named_parameters())
        inputs, passed = functional_call(first, weights, ("before", positions, rotary, carry))
        expected_inputs, expected_passed = layer.before(positions, rotary, carry)
        assert all(torch.equal(*pair) for pair in zip((*inputs, *passed), (*expected_inputs, *expected_passed), strict=True))
        (result,) = functional_call(first, weights, ("after", attended, carry))
        assert torch.equal(result, layer.after(attended, carry)[0])
    outputs = [layer.after(attended, carry)[0] for layer in tiny_model.layers]
    assert not torch.equal(outputs[0], outputs[1])


class Pieces(torch.nn.Module):
    """A layer whose pieces are called by name, as `functional_call` only calls `forward`."""

    def __init__(self, layer: LlamaLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, piece: str, *arguments: Any) -> Any:
        return getattr(self.layer, piece)(*arguments)


def test_pieces_leave_their_arguments_as_they_were(tiny_model: PiecewiseModel) -> None:
    layer = tiny_model.layers[0]
    carry, attended = (torch.randn(6, 64),), torch.randn(6, 4, 16)
    before = carry[0].clone(), attended.clone()
    layer.before(torch.arange(6), tiny_model.rotary_table(6), carry)
    layer.after(attended, carry)
    assert torch.equal(carry[0], before[0])
    assert torch.equal(attended, before[1])


def test_all_layers_have_weights_of_the_same_names_and_shapes(tiny_model: PiecewiseModel) -> None:
    shapes = [[(name, parameter.shape) for name, parameter in layer.named_parameters()] for layer in tiny_model.layers]
    assert shapes[0] == shapes[1] == shapes[2]
    assert len({layer.attention for layer in tiny_model.layers}) == 1


def test_query_key_and_value_come_as_heads_of_the_models_type(tmp_path: Path) -> None:
    model = load_tiny_model(write_tiny_llama(tmp_path / "tiny", head_dim=32), dtype="bfloat16")
    (query, key, value), _ = model.layers[0].before(torch.arange(3), model.rotary_table(3), model.embed(torch.arange(3)))
    assert (query.shape, key.shape, value.shape) == ((3, 4, 32), (3, 2, 32), (3, 2, 32))
    assert {query.dtype, key.dtype, value.dtype} == {torch.bfloat16}
