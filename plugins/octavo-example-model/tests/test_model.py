from pathlib import Path

import pytest
import torch
from torch.nn import functional

from octavo_example_model.checkpoint import write_checkpoint
from octavo_example_model.config import read_config
from octavo_example_model.model import ExampleGPT
from octavo_models.testing.conformance import MODEL_CASES, ModelUnderTest, check_model, chunked_logits, read_model


@pytest.fixture(scope="module")
def model(folder: Path) -> ModelUnderTest:
    return read_model(folder, ExampleGPT, reader=read_config)


@pytest.mark.parametrize("case", MODEL_CASES, ids=str)
def test_conforms(model: ModelUnderTest, case: str) -> None:
    check_model(model, case)


def rotated(heads: torch.Tensor) -> torch.Tensor:
    """heads [N, H, D]: dimension i of the first D / 4 turns with dimension i + D / 4, the second half stays."""
    quarter = heads.shape[-1] // 4
    angles = torch.outer(torch.arange(len(heads)).float(), 10_000.0 ** (-torch.arange(quarter) / quarter))[:, None]
    first, second, rest = heads.split([quarter, quarter, 2 * quarter], dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine, rest), dim=-1)


def test_logits_are_those_of_the_definition(model: ModelUnderTest) -> None:
    tokens, weights = model.tokens(17), model.weights
    embedding = weights["embedding.weight"][tokens]
    x = embedding
    for layer in range(model.config.num_layers):
        part = {name.removeprefix(f"layers.{layer}."): tensor for name, tensor in weights.items() if name.startswith(f"layers.{layer}.")}
        x = part["blend.weight"][0] * x + part["blend.weight"][1] * embedding
        normed = functional.layer_norm(x, (64,), part["norm.weight"], part["norm.bias"], 1e-5)
        query = rotated((normed @ part["attention.query.weight"].T).view(17, 4, 16))
        key = rotated((normed @ part["attention.key.weight"].T).view(17, 1, 16)).expand(17, 4, 16)
        value = (normed @ part["attention.value.weight"].T).view(17, 1, 16).expand(17, 4, 16)
        scores = torch.einsum("qhd,khd->hqk", query, key) / 4
        seen = torch.ones(17, 17, dtype=torch.bool).tril()
        attended = torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -torch.inf).softmax(dim=-1), value)
        inner = functional.relu(normed @ part["mlp.up.weight"].T + part["mlp.up.bias"]) ** 2
        mlp = inner @ part["mlp.down.weight"].T + part["mlp.down.bias"]
        x = x + mlp + attended.reshape(17, 64) @ part["attention.output.weight"].T
    expected = functional.layer_norm(x, (64,), weights["norm.weight"], weights["norm.bias"], 1e-5) @ weights["head.weight"].T
    torch.testing.assert_close(chunked_logits(model.build(), tokens, [17]), expected, atol=1e-4, rtol=0)


def test_a_checkpoint_in_bfloat16_says_so(tmp_path: Path) -> None:
    stored = read_model(write_checkpoint(tmp_path / "tiny", dtype="bfloat16", n_layer=2), ExampleGPT, reader=read_config)
    assert stored.config.stored_dtype == "bfloat16"
    assert {tensor.dtype for tensor in stored.weights.values()} == {torch.bfloat16}
