"""Damaged and incomplete safetensors are refused by name; whole ones come tensor by tensor."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.errors import CheckpointError
from octavo.model.source import ModelFiles
from octavo_models.loading.safetensors import open_safetensors
from octavo_models.loading.safetensors_header import read_header
from octavo_models.testing import write_safetensors, write_weights

WEIGHTS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(5, dtype=np.float32), "c": np.zeros((2, 2), dtype=np.float32)}


def files_of(folder: Path) -> ModelFiles:
    index = folder / "model.safetensors.index.json"
    weights = tuple(sorted(folder.glob("*.safetensors")))
    return ModelFiles(name="tiny", format="safetensors", folder=folder, weights=weights, index=index if index.exists() else None)


def read(folder: Path) -> dict[str, torch.Tensor]:
    stream = open_safetensors(files_of(folder))
    tensors = dict(stream.tensors)
    assert len(tensors) == stream.num_tensors
    return tensors


def write_raw(path: Path, header: object, data: bytes = b"") -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_all_tensors_come_once_with_their_values(tmp_path: Path, shards: int, dtype: str) -> None:
    write_weights(tmp_path, WEIGHTS, dtype=dtype, shards=shards)
    tensors = read(tmp_path)
    assert tensors.keys() == WEIGHTS.keys()
    for name, value in WEIGHTS.items():
        assert torch.equal(tensors[name], torch.from_numpy(value).to(getattr(torch, dtype)))


def test_rounding_to_a_narrower_type_is_torchs(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    write_safetensors(tmp_path / "model.safetensors", {"a": values}, dtype="bfloat16")
    assert torch.equal(read(tmp_path)["a"], torch.from_numpy(values).bfloat16())


def test_a_cut_file_is_refused_with_the_missing_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"a": np.zeros(100, dtype=np.float32)})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is truncated: 100 bytes are missing"):
        read(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, WEIGHTS)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        read(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_header_never_ends_in_another_exception(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, WEIGHTS)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, 200))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with suppress(CheckpointError):
        read(tmp_path)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 10_000])
def test_a_header_longer_than_the_file_is_refused_without_reading_it(tmp_path: Path, length: int) -> None:
    (tmp_path / "model.safetensors").write_bytes(length.to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="cannot hold the header"):
        read(tmp_path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(CheckpointError, match="has 0 bytes"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}, "damaged header"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [12, 16]}, "damaged header"),
        ({"dtype": "F32", "shape": [3], "data_offsets": [8, 16]}, "not a F32 of shape"),
        ({"dtype": "F8_E4M3", "shape": [8], "data_offsets": [8, 16]}, "has type F8_E4M3"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [8, 16]}, "does not describe"),
        ({"dtype": "F32", "shape": [2]}, "does not describe"),
        ([], "does not describe"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}, "belong to no tensor"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(tmp_path: Path, entry: object, message: str) -> None:
    first = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    path = write_raw(tmp_path / "model.safetensors", {"first": first, "second": entry}, bytes(20))
    with pytest.raises(CheckpointError, match=message):
        read_header(path)


def test_a_name_that_occurs_twice_in_a_header_is_refused(tmp_path: Path) -> None:
    entry = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    text = f'{{"a":{entry},"a":{entry}}}'.encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(CheckpointError, match=r"\['a'\] twice"):
        read_header(path)


def test_a_shard_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_weights(tmp_path, WEIGHTS, shards=2)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors is missing: incomplete download\?"):
        read(tmp_path)


def test_a_tensor_that_its_shard_lacks_is_named(tmp_path: Path) -> None:
    write_weights(tmp_path, WEIGHTS, shards=2)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["d"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"'d' is in model-00001-of-00002\.safetensors, which does not hold it"):
        read(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    write_weights(tmp_path, WEIGHTS, shards=2)
    shutil.copy(tmp_path / "model-00001-of-00002.safetensors", tmp_path / "model-00003-of-00002.safetensors")
    with pytest.raises(CheckpointError, match=r"tensor 'a' is in .*00001.* and in .*00003"):
        read(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": "../model.safetensors"}}'])
def test_an_index_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    write_weights(tmp_path, WEIGHTS)
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"index\.json"):
        read(tmp_path)


def test_pickled_weights_are_refused_and_not_run(tmp_path: Path) -> None:
    touched = tmp_path / "touched"

    class Payload:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (touched,))

    pickled = tmp_path / "pytorch_model.bin"
    torch.save({"a": Payload()}, pickled)
    files = ModelFiles(name="tiny", format="safetensors", folder=tmp_path, weights=(pickled,))
    with pytest.raises(CheckpointError, match="pickled weights can run code"):
        open_safetensors(files)
    assert not touched.exists()


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no weights"):
        read(tmp_path)
