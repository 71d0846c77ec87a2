import json
from pathlib import Path

import pytest

from octavo.errors import CheckpointError, PluginError
from octavo.model.config import ModelConfig, load_model_config
from octavo.model.config_reader import ConfigReader
from octavo.model.folder import inspect_path
from octavo.model.foreign import ForeignFields
from octavo.model.huggingface_config import from_huggingface
from octavo.plugins.registry import Registry


def read(fields: ForeignFields) -> ModelConfig:
    values = dict(fields.values) | {"num_hidden_layers": fields.positive_int("depth")}
    return from_huggingface(values, name=fields.name)


@pytest.fixture
def readers() -> Registry[ConfigReader]:
    registry: Registry[ConfigReader] = Registry("configuration reader")
    registry.register("deep", read)
    return registry


def rewrite(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_model_type_of_a_plugin_is_read_by_its_reader(model_folder: Path, readers: Registry[ConfigReader]) -> None:
    rewrite(model_folder, model_type="deep", depth=7)
    config = load_model_config(inspect_path(model_folder, name="m"), readers)
    assert (config.architecture, config.num_layers) == ("deep", 7)


def test_end_of_sequence_ids_of_the_generation_config_are_added(model_folder: Path, readers: Registry[ConfigReader]) -> None:
    rewrite(model_folder, model_type="deep", depth=7, eos_token_id=2)
    (model_folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 2]}))
    assert load_model_config(inspect_path(model_folder, name="m"), readers).eos_token_ids == (2, 5)


def test_other_model_types_are_read_as_ever(model_folder: Path, readers: Registry[ConfigReader]) -> None:
    files = inspect_path(model_folder, name="m")
    assert load_model_config(files, readers) == load_model_config(files)


def test_what_a_reader_misses_is_named_with_file_and_model_type(model_folder: Path, readers: Registry[ConfigReader]) -> None:
    rewrite(model_folder, model_type="deep")
    with pytest.raises(CheckpointError, match=r"config\.json \(model type 'deep'\) has no 'depth'"):
        load_model_config(inspect_path(model_folder, name="m"), readers)


@pytest.mark.parametrize(
    ("reader", "fault"), [(lambda fields: fields.values, "returned a dict, but must return"), (7, "is no function")], ids=["dict", "number"]
)
def test_a_reader_that_is_none_names_its_plugin(model_folder: Path, reader: ConfigReader, fault: str) -> None:
    rewrite(model_folder, model_type="odd")
    readers: Registry[ConfigReader] = Registry("configuration reader")
    readers.owned_by("stranger").register("odd", reader)
    with pytest.raises(PluginError, match=f"configuration reader 'odd' of plugin 'stranger'.*{fault}"):
        load_model_config(inspect_path(model_folder, name="m"), readers)
