import json
from pathlib import Path

import pytest

from octavo.errors import CheckpointError, ModelNotFoundError
from octavo.model.folder import inspect_path


def empty(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


def test_an_indexed_folder_gives_its_shards_in_order(model_folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        (model_folder / name).write_text("{}")
    files = inspect_path(model_folder, name="mine")
    assert (files.name, files.format, files.folder) == ("mine", "safetensors", model_folder)
    assert [path.name for path in files.weights] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert files.index == model_folder / "model.safetensors.index.json"
    assert files.chat_template == model_folder / "chat_template.jinja"
    assert None not in (files.config, files.tokenizer, files.tokenizer_config, files.generation_config)


def test_one_safetensors_file_needs_no_index(tmp_path: Path) -> None:
    files = inspect_path(empty(tmp_path / "m", "config.json", "model.safetensors", "consolidated.safetensors"), name="m")
    assert [path.name for path in files.weights] == ["model.safetensors"]
    assert files.index is None
    assert files.tokenizer is None


def test_safetensors_win_over_pickles_and_gguf(tmp_path: Path) -> None:
    folder = empty(tmp_path / "m", "config.json", "model.safetensors", "pytorch_model.bin", "model.gguf")
    assert inspect_path(folder, name="m").format == "safetensors"
    assert inspect_path(folder, name="m", load_format="gguf").format == "gguf"


def test_pickles_alone_are_refused_and_stay_closed(tmp_path: Path) -> None:
    folder = empty(tmp_path / "m", "config.json", "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin.*runs whatever code"):
        inspect_path(folder, name="m")


def test_a_missing_shard_is_named(model_folder: Path) -> None:
    (model_folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors.*incomplete download"):
        inspect_path(model_folder, name="m")


def test_a_missing_shard_is_noticed_without_an_index_too(tmp_path: Path) -> None:
    folder = empty(tmp_path / "m", "config.json", "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors")
    with pytest.raises(CheckpointError, match="2 of 3 shards, number 2 is missing"):
        inspect_path(folder, name="m")


@pytest.mark.parametrize("shard", ["../other/model.safetensors", "/etc/passwd", "weights.bin", 7])
def test_an_index_cannot_point_elsewhere(model_folder: Path, shard: object) -> None:
    (model_folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(CheckpointError, match="no safetensors file beside it"):
        inspect_path(model_folder, name="m")


def test_an_index_without_weights_is_refused(model_folder: Path) -> None:
    (model_folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(CheckpointError, match="weight_map"):
        inspect_path(model_folder, name="m")


def test_safetensors_without_config_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        inspect_path(empty(tmp_path / "m", "model.safetensors"), name="m")


def test_a_folder_with_one_gguf_is_that_file(tmp_path: Path) -> None:
    files = inspect_path(empty(tmp_path / "m", "one.gguf", "README.md"), name="m")
    assert (files.format, files.weights, files.config) == ("gguf", (tmp_path / "m" / "one.gguf",), None)


def test_several_gguf_files_are_listed(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"one of them: a\.gguf, b\.gguf"):
        inspect_path(empty(tmp_path / "m", "b.gguf", "a.gguf"), name="m")


def test_split_gguf_files_are_refused_with_the_way_out(tmp_path: Path) -> None:
    folder = empty(tmp_path / "m", "x-00001-of-00002.gguf", "x-00002-of-00002.gguf")
    for path in (folder, folder / "x-00001-of-00002.gguf"):
        with pytest.raises(CheckpointError, match=r"split GGUF.*--merge"):
            inspect_path(path, name="m")


def test_nothing_to_load_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="expected safetensors"):
        inspect_path(empty(tmp_path / "m", "notes.txt"), name="m")
    with pytest.raises(ModelNotFoundError, match="expected a GGUF file"):
        inspect_path(empty(tmp_path / "n", "config.json", "model.safetensors"), name="m", load_format="gguf")


def test_other_files_are_no_models(tmp_path: Path) -> None:
    empty(tmp_path / "m", "model.safetensors", "model.gguf")
    with pytest.raises(CheckpointError, match="give the folder"):
        inspect_path(tmp_path / "m" / "model.safetensors", name="m")
    with pytest.raises(CheckpointError, match="load format is 'safetensors'"):
        inspect_path(tmp_path / "m" / "model.gguf", name="m", load_format="safetensors")


def test_without_weights_the_config_is_enough(model_folder: Path) -> None:
    for path in (model_folder, model_folder / "config.json"):
        files = inspect_path(path, name="m", load_format="dummy")
        assert (files.dummy, files.format, files.weights, files.config) == (True, "safetensors", (), model_folder / "config.json")
    assert not inspect_path(model_folder, name="m").dummy


def test_without_weights_a_gguf_file_is_its_header(tmp_path: Path) -> None:
    folder = empty(tmp_path / "m", "one.gguf")
    for path in (folder, folder / "one.gguf"):
        files = inspect_path(path, name="m", load_format="dummy")
        assert (files.dummy, files.format, files.weights) == (True, "gguf", (folder / "one.gguf",))


def test_a_pickle_that_is_named_itself_is_refused(tmp_path: Path) -> None:
    empty(tmp_path / "m", "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="runs whatever code"):
        inspect_path(tmp_path / "m" / "pytorch_model.bin", name="m")
