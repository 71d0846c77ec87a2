"""One call from files to a model that is ready to run."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from octavo.errors import CheckpointError, PluginError
from octavo.model.config import ModelConfig
from octavo_models.layers import Linear, UnquantizedLinear
from octavo_models.llama import LlamaModel
from octavo_models.loading.loader import load_model
from octavo_models.model import Carry
from octavo_models.testing import write_tiny_gguf, write_tiny_llama
from octavo_models.testing.dense import dense_logits, load_tiny_model, tiny_engine_config

TOKENS = torch.arange(40)


def test_both_formats_give_the_same_model(tmp_path: Path) -> None:
    folder = load_tiny_model(write_tiny_llama(tmp_path / "tiny", shards=2))
    file = load_tiny_model(write_tiny_gguf(tmp_path / "tiny.gguf", quantization="F32"))
    assert torch.equal(dense_logits(folder, TOKENS), dense_logits(file, TOKENS))


def test_a_model_comes_in_the_type_asked_for_and_ready_for_inference(tmp_path: Path) -> None:
    model = load_tiny_model(write_tiny_llama(tmp_path / "tiny"), dtype="bfloat16")
    assert {(parameter.dtype, parameter.requires_grad) for parameter in model.parameters()} == {(torch.bfloat16, False)}
    assert not model.training


def test_methods_finish_each_linear_layer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[Linear] = []
    monkeypatch.setattr(UnquantizedLinear, "finish_loading", lambda self, layer: finished.append(layer))
    model = load_tiny_model(write_tiny_llama(tmp_path / "tiny"))
    assert finished == [module for module in model.modules() if isinstance(module, Linear)]
    assert len(finished) == 2 * 4 + 1


def test_the_progress_bar_keeps_silent_where_there_is_no_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = tiny_engine_config(write_tiny_llama(tmp_path / "tiny"))
    load_model(config, LlamaModel, torch.float32, progress=True)
    assert capfd.readouterr() == ("", "")


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    config = tiny_engine_config(write_tiny_llama(tmp_path / "tiny"))
    config = replace(config, load=replace(config.load, files=replace(config.load.files, format="punched cards")))
    with pytest.raises(CheckpointError, match="'punched cards'"):
        load_model(config, LlamaModel, torch.float32, progress=False)


class Bare(LlamaModel):
    def embed(self, token_ids: torch.Tensor) -> Carry:
        return self.embedding(token_ids)


class Wishful(LlamaModel):
    def __init__(self, config: ModelConfig, dtype: torch.dtype) -> None:
        super().__init__(config, dtype)
        self.scale = config.branch_scale  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("model_class", "fault"),
    [
        (Bare, r"embed: the carry is a Tensor, but must be a tuple of residual: write \(x,\) for one"),
        (
            Wishful,
            r"Wishful asks its configuration for 'branch_scale', which a ModelConfig does not have: .*octavo_register_config_readers",
        ),
    ],
)
def test_a_model_that_breaks_its_contract_is_refused_before_it_runs(tmp_path: Path, model_class: type[LlamaModel], fault: str) -> None:
    config = tiny_engine_config(write_tiny_llama(tmp_path / "tiny"))
    with pytest.raises(PluginError, match=fault):
        load_model(config, model_class, torch.float32, progress=False)
