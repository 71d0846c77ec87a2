"""A checkpoint that is incomplete or damaged is refused by name, in seconds, by the engine and by the program."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo import LLM
from octavo.errors import CheckpointError
from octavo_models.testing import tiny_llama_config, tiny_llama_weights, write_safetensors
from tests.refusals.engine import Finished

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
Weights = dict[str, np.ndarray[Any, np.dtype[np.float32]]]


def edit_index(folder: Path, change: Callable[[dict[str, str]], None]) -> None:
    content = json.loads((folder / INDEX).read_text())
    change(content["weight_map"])
    (folder / INDEX).write_text(json.dumps(content))


def lose_a_shard(folder: Path) -> None:
    (folder / SECOND).unlink()


def name_a_tensor_that_is_not_there(folder: Path) -> None:
    edit_index(folder, lambda places: places.update({"model.layers.7.extra.weight": FIRST}))


def name_the_wrong_shard(folder: Path) -> None:
    edit_index(folder, lambda places: places.update({"model.norm.weight": FIRST}))


def hold_a_tensor_in_both(folder: Path) -> None:
    write_safetensors(folder / FIRST, tiny_llama_weights(tiny_llama_config(), 0))


def cut_a_shard(folder: Path) -> None:
    (folder / SECOND).write_bytes((folder / SECOND).read_bytes()[:-100])


def empty_a_shard(folder: Path) -> None:
    (folder / SECOND).write_bytes(b"")


def put_a_folder_in_its_place(folder: Path) -> None:
    (folder / SECOND).unlink()
    (folder / SECOND).mkdir()


def tear_the_index(folder: Path) -> None:
    (folder / INDEX).write_text((folder / INDEX).read_text()[:40])


SHARD_FAULTS = [
    (lose_a_shard, f"names the shard {SECOND}, which is not there; is it an incomplete download?"),
    (put_a_folder_in_its_place, f"names the shard {SECOND}, which is not there; is it an incomplete download?"),
    (name_a_tensor_that_is_not_there, f"tensor 'model.layers.7.extra.weight' is in {FIRST}, which does not hold it: incomplete download?"),
    (name_the_wrong_shard, f"tensor 'model.norm.weight' is in {FIRST}, which does not hold it: incomplete download?"),
    (hold_a_tensor_in_both, f"and in {{folder}}/{SECOND}"),
    (cut_a_shard, f"{{folder}}/{SECOND} is truncated: 100 bytes are missing; incomplete download?"),
    (empty_a_shard, f"{{folder}}/{SECOND} has 0 bytes"),
    (tear_the_index, f"{INDEX} is not JSON"),
]


@pytest.mark.parametrize(("damage", "said"), SHARD_FAULTS)
def test_a_faulty_shard_or_index_is_named(
    sharded: Path, damage: Callable[[Path], None], said: str, start: Callable[..., LLM], generate: Callable[..., Finished]
) -> None:
    damage(sharded)
    said = said.format(folder=sharded)
    with pytest.raises(CheckpointError) as caught:
        start(sharded)
    assert said in str(caught.value)
    finished = generate(sharded)
    assert finished.code == 1
    assert said in finished.error


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write_raw(path: Path, header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def announce_a_huge_header(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 2**63) + path.read_bytes()[8:])


def overlap(path: Path) -> None:
    header, data = header_of(path)
    first, second = (header[name] for name in ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.o_proj.weight"))
    second["data_offsets"] = first["data_offsets"]
    write_raw(path, header, data)


def leave_a_gap(path: Path) -> None:
    header, data = header_of(path)
    header["model.norm.weight"]["data_offsets"] = [end + 64 for end in header["model.norm.weight"]["data_offsets"]]
    write_raw(path, header, data + bytes(64))


def give_a_number_of_five_thousand_digits(path: Path) -> None:
    text = b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 4]}}'
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))


def nest_without_end(path: Path) -> None:
    text = b'{"a":' * 50_000 + b"0" + b"}" * 50_000
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def write_half_the_length(path: Path) -> None:
    path.write_bytes(b"\x08\x00\x00")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(b""), "has 0 bytes and cannot hold the header that it announces"),
        (write_half_the_length, "has 3 bytes and cannot hold the header"),
        (announce_a_huge_header, "cannot hold the header that it announces: truncated or not safetensors"),
        (overlap, "damaged header"),
        (leave_a_gap, "damaged header"),
        (give_a_number_of_five_thousand_digits, "is not JSON"),
        (nest_without_end, "is not JSON"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is truncated: 100 bytes are missing; incomplete download?"),
        (lambda path: path.write_bytes(path.read_bytes() + bytes(8)), "has 8 bytes that belong to no tensor"),
    ],
)
def test_a_damaged_file_is_refused_before_anything_of_it_is_read(
    copied: Path, damage: Callable[[Path], object], said: str, start: Callable[..., LLM], generate: Callable[..., Finished]
) -> None:
    path = copied / "model.safetensors"
    damage(path)
    with pytest.raises(CheckpointError, match=r"model\.safetensors") as caught:
        start(copied)
    assert said in str(caught.value)
    assert said in generate(copied).error


def without(name: str) -> Callable[[Weights], Weights]:
    return lambda weights: {known: value for known, value in weights.items() if known != name}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("model.layers.1.mlp.up_proj.weight"), "lacks tensors that the model needs: model.layers.1.mlp.up_proj.weight"),
        (lambda weights: {}, "its files hold 0 tensors"),
        (
            lambda weights: weights | {"model.layers.0.extra.weight": np.ones(3, np.float32)},
            "holds tensors that the model has no place for: model.layers.0.extra.weight",
        ),
        (
            lambda weights: weights | {"model.norm.weight": np.ones(65, np.float32)},
            "tensor 'model.norm.weight' has shape (65,), the configuration asks for (64,)",
        ),
        (
            lambda weights: weights | {"model.norm.weight": np.ones((), np.float32)},
            "tensor 'model.norm.weight' has shape (), the configuration asks for (64,)",
        ),
        (
            lambda weights: weights | {"model.norm.weight": np.ones((64, 0), np.float32)},
            "tensor 'model.norm.weight' has shape (64, 0), the configuration asks for (64,)",
        ),
    ],
)
def test_tensors_that_do_not_fit_the_configuration_are_listed(
    copied: Path, change: Callable[[Weights], Weights], said: str, start: Callable[..., LLM], generate: Callable[..., Finished]
) -> None:
    write_safetensors(copied / "model.safetensors", change(tiny_llama_weights(tiny_llama_config(), 0)))
    with pytest.raises(CheckpointError) as caught:
        start(copied)
    assert said in str(caught.value)
    assert said in generate(copied).error


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("vocab_size", 10**12, "vocab_size is 1000000000000, but must be at most 2,147,483,647"),
        ("vocab_size", 2 * 10**9, "an embedding of 2,000,000,000 x 64"),
        ("hidden_size", 2**62, "hidden_size is 4611686018427387904, but must be at most 2,147,483,647"),
        ("hidden_size", 2**30, "do not belong together"),
        ("rope_theta", 10**400, "but must be a positive number from 1e-30 to 1e+30"),
        ("num_hidden_layers", 2**31, "num_hidden_layers is 2147483648, but must be at most 10,000"),
        ("num_hidden_layers", 10**4, "asks for 10,000 layers"),
        ("num_hidden_layers", 3, "lacks tensors that the model needs: model.layers.2."),
        ("num_hidden_layers", 1, "has no place for: model.layers.1."),
        ("intermediate_size", 130, "the configuration asks for (64, 130)"),
        ("eos_token_id", "2", "eos_token_id is '2', but must be a token id"),
        ("model_type", None, "has no 'model_type'"),
        ("model_type", ["llama"], "model_type is ['llama'], but must be a string"),
        ("torch_dtype", "float8", "torch_dtype is 'float8'"),
        ("quantization_config", {"quant_method": "gptq"}, "weights quantized with 'gptq' are not supported"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_before_memory_is_taken_for_it(
    copied: Path, field: str, value: object, said: str, start: Callable[..., LLM]
) -> None:
    path = copied / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(CheckpointError) as caught:
        start(copied)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_a_torn_file_beside_the_weights_is_named(copied: Path, name: str, content: bytes, generate: Callable[..., Finished]) -> None:
    (copied / name).write_bytes(content)
    finished = generate(copied)
    assert finished.code == 1
    assert str(copied / name) in finished.error


def test_a_chat_template_that_is_no_text_is_named(copied: Path, generate: Callable[..., Finished]) -> None:
    (copied / "chat_template.jinja").write_bytes(b"{{ \xff }}")
    assert str(copied / "chat_template.jinja") in generate(copied).error


def test_a_tokenizer_that_is_not_there_is_an_error_where_weights_are(copied: Path, generate: Callable[..., Finished]) -> None:
    (copied / "tokenizer.json").unlink()
    assert "has no tokenizer.json" in generate(copied).error
