import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import CheckpointError, ConfigurationError
from octavo.model.architecture import unknown_architecture_named
from octavo.model.config import load_model_config
from octavo.model.folder import inspect_path
from octavo.plugins.registry import Registry


def load(path: Path, known: tuple[str, ...], left_out: tuple[str, ...] = ()) -> None:
    files = inspect_path(path, name="m")
    models: Registry[object] = Registry("model architecture")
    for name in known:
        models.register(name, "nowhere:Model")
    models.freeze(left_out)
    with unknown_architecture_named(files, models):
        load_model_config(files)


def change(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_an_unknown_architecture_is_what_is_wrong_and_not_the_fields_it_lacks(model_folder: Path) -> None:
    change(model_folder, model_type="mamba", num_attention_heads=None)
    with pytest.raises(ConfigurationError, match=r"architecture 'mamba': there are llama, qwen3; a plugin can add one"):
        load(model_folder, ("qwen3", "llama"))


def test_a_plugin_that_was_left_out_is_named(model_folder: Path) -> None:
    change(model_folder, model_type="mamba", num_attention_heads=None)
    with pytest.raises(ConfigurationError, match=r"architecture 'mamba': .*; installed but blocked, .*: 'states' \(OCTAVO_PLUGINS_BLOCK"):
        load(model_folder, ("llama",), left_out=("states",))


def test_a_known_architecture_lacks_what_it_lacks(model_folder: Path) -> None:
    change(model_folder, num_attention_heads=None)
    with pytest.raises(CheckpointError, match="num_attention_heads"):
        load(model_folder, ("llama",))


def test_where_nothing_is_registered_the_fault_stays_what_it_is(model_folder: Path) -> None:
    change(model_folder, model_type="mamba", num_attention_heads=None)
    with pytest.raises(CheckpointError, match="num_attention_heads"):
        load(model_folder, ())


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_a_file_that_cannot_be_read_stays_that(model_folder: Path, text: str) -> None:
    (model_folder / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load(model_folder, ("llama",))


@pytest.mark.parametrize("model_type", [None, 7, ["llama"], {}])
def test_a_model_type_that_is_no_name_is_said_to_be_wrong(model_folder: Path, model_type: object) -> None:
    change(model_folder, model_type=model_type)
    with pytest.raises(CheckpointError, match="model_type"):
        load(model_folder, ("llama",))


def test_gguf_files_say_theirs(write_gguf: Callable[..., Path], llama_values: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="architecture 'mamba'"):
        load(write_gguf(llama_values | {"general.architecture": "mamba"}), ("llama",))
