import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.config import load_model_config
from octavo.model.folder import inspect_path


def test_a_folder_is_read_with_the_end_ids_of_its_generation_config(model_folder: Path) -> None:
    (model_folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 2]}))
    config = load_model_config(inspect_path(model_folder, name="m"))
    assert config.architecture == "llama"
    assert config.eos_token_ids == (2, 9)


def test_a_gguf_file_is_read(write_gguf: Callable[..., Path], llama_values: dict[str, Any], llama_tensors: dict[str, Any]) -> None:
    config = load_model_config(inspect_path(write_gguf(llama_values, llama_tensors), name="m"))
    assert (config.num_layers, config.tie_embeddings) == (2, True)


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 100_000, '"x"'])
def test_a_damaged_config_is_named(model_folder: Path, text: str) -> None:
    (model_folder / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_model_config(inspect_path(model_folder, name="m"))


def test_end_ids_beyond_the_vocabulary_are_left_out_with_a_warning(model_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (model_folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 320, 10**9]}))
    assert load_model_config(inspect_path(model_folder, name="m")).eos_token_ids == (2, 9)
    assert "[320, 1000000000] of m are beyond its vocabulary of 320" in caplog.text
