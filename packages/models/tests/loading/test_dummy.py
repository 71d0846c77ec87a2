"""Weights that are made up: the right shapes, the same each time, and nothing infinite."""

from pathlib import Path

import torch
from torch import nn

from octavo_models.llama import LlamaModel
from octavo_models.loading.dummy import fill_with_noise
from octavo_models.testing import write_tiny_llama
from octavo_models.testing.dense import dense_logits, load_tiny_model, tiny_engine_config


def filled(module: nn.Module, seed: int = 0) -> nn.Module:
    fill_with_noise(module, seed)
    return module


def test_the_same_seed_gives_the_same_weights_and_another_gives_others() -> None:
    first, again, other = (filled(nn.Linear(300, 200), seed).weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(filled(nn.Linear(3, 2), 2**70).weight, filled(nn.Linear(3, 2), 2**70 % 2**63).weight)


def test_matrices_keep_the_size_of_what_they_multiply() -> None:
    weight = filled(nn.Linear(4096, 1000, bias=False)).weight.detach()
    assert abs(float(weight.std()) * 64 - 1) < 0.01
    assert abs(float(weight.mean())) < 1e-3


def test_rows_differ_also_far_apart() -> None:
    weight = filled(nn.Linear(1024, 3000, bias=False)).weight.detach()
    assert len({tuple(row[:4].tolist()) for row in weight}) == 3000


def test_scales_are_one_biases_small_and_packed_weights_bytes() -> None:
    module = nn.Module()
    module.scale = nn.Parameter(torch.empty(8))
    module.bias = nn.Parameter(torch.empty(8))
    module.packed = nn.Parameter(torch.zeros(100, 100, dtype=torch.int32), requires_grad=False)
    fill_with_noise(module, 0)
    assert module.scale.tolist() == [1.0] * 8
    assert 0 < float(module.bias.detach().abs().max()) < 0.1
    assert len(module.packed.unique()) > 9000


def test_a_model_gives_finite_and_different_logits(tmp_path: Path) -> None:
    config = tiny_engine_config(write_tiny_llama(tmp_path / "tiny", num_hidden_layers=8))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        model = LlamaModel(config.model, dtype)
        fill_with_noise(model, 0)
        logits = dense_logits(model.eval(), torch.arange(40))
        assert logits.isfinite().all()
        assert len(logits.argmax(dim=1).unique()) > 10
    assert not torch.equal(load_tiny_model(tmp_path / "tiny").embedding.weight, model.embedding.weight)
