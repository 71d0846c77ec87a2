"""A GGUF file is the same model as the folder it was made from, or it is refused by name."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

from octavo import LLM
from octavo.errors import CheckpointError, ConfigurationError
from octavo.model.ggml_types import GGML_TYPES
from octavo.model.gguf_metadata import read_gguf_metadata
from octavo_models.testing import tiny_llama_config, tiny_llama_weights, write_tiny_gguf, write_tiny_llama, write_weights
from octavo_models.testing.dense import dense_logits, load_tiny_model
from tests.refusals.engine import Finished, answer

TOKENS = torch.arange(5, 45)
TEXTS = [
    "the quick brown fox",
    "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
    "a<|endoftext|><|im_end|><|im_start|>b",
    "<|im_start |> <|im_end|",
    " two  spaces\ttab\n\n\r\n",
    "naïve čeština 日本語 ไทย 🏳️‍🌈 \0 \u202e",
]


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def file(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copy(whole, tmp_path / "copied.gguf"))


def set_flag(path: Path, key: str, *, value: bool) -> None:
    """Change a boolean of a file in its place."""
    content = bytearray(path.read_bytes())
    start = content.index(key.encode()) + len(key)
    assert content[start : start + 4] == (7).to_bytes(4, "little"), "a boolean"
    content[start + 4] = value
    path.write_bytes(content)


@pytest.mark.parametrize("quantization", ["F16", "Q8_0"])
def test_texts_become_the_same_tokens_and_answers_end_at_the_same_ones(
    tiny: Path, tmp_path: Path, quantization: str, start: Callable[..., LLM]
) -> None:
    folder = start(tiny)
    file = start(write_tiny_gguf(tmp_path / "tiny.gguf", quantization=quantization), dtype="float32")
    for text in TEXTS:
        (expected,), (output,) = folder.generate(text, use_tqdm=False), file.generate(text, use_tqdm=False)
        assert output.prompt_token_ids == expected.prompt_token_ids, text
    conversation = [{"role": "system", "content": "be <|im_end|> kind"}, {"role": "user", "content": "hello"}]
    (expected,), (output,) = folder.chat(conversation, use_tqdm=False), file.chat(conversation, use_tqdm=False)
    assert (output.prompt, output.prompt_token_ids) == (expected.prompt, expected.prompt_token_ids)
    assert file.engine.info.eos_token_ids == folder.engine.info.eos_token_ids == [2]
    assert file.engine.config.model.bos_token_id == folder.engine.config.model.bos_token_id == 1
    assert file.engine.tokenizer.special_tokens["eos_token"] == folder.engine.tokenizer.special_tokens["eos_token"]


def test_whether_bos_comes_first_is_what_the_metadata_say(file: Path, start: Callable[..., LLM]) -> None:
    for value in (False, True):
        set_flag(file, "tokenizer.ggml.add_bos_token", value=value)
        llm = start(file)
        (output,) = llm.generate("hello", use_tqdm=False)
        assert (output.prompt_token_ids[0] == 1) is value
        (twice,) = llm.generate("<|im_start|>hello", use_tqdm=False)
        assert twice.prompt_token_ids.count(1) == 1


@pytest.mark.parametrize("config", [{}, {"tie_word_embeddings": False}, {"attention_bias": True}])
def test_logits_of_f16_are_those_of_the_folder_with_matrices_rounded_alike(tmp_path: Path, config: dict[str, bool]) -> None:
    folder = write_tiny_llama(tmp_path / "tiny", **config)
    exact = dense_logits(load_tiny_model(folder), TOKENS)
    weights = tiny_llama_weights(tiny_llama_config(**config), 0)
    write_weights(
        folder, {name: value.astype(np.float16).astype(np.float32) if value.ndim > 1 else value for name, value in weights.items()}
    )
    rounded = dense_logits(load_tiny_model(folder), TOKENS)
    logits = dense_logits(load_tiny_model(write_tiny_gguf(tmp_path / "tiny.gguf", **config)), TOKENS)
    torch.testing.assert_close(logits, rounded, rtol=0, atol=1e-4)
    assert (logits - exact).abs().max() < 1e-2 * exact.abs().max()


def test_a_file_without_a_head_has_a_tied_one(whole: Path, tmp_path: Path, start: Callable[..., LLM]) -> None:
    assert "output.weight" not in read_gguf_metadata(whole).tensors
    assert start(whole).engine.config.model.tie_embeddings
    untied = write_tiny_gguf(tmp_path / "untied.gguf", tie_word_embeddings=False)
    assert not start(untied).engine.config.model.tie_embeddings
    assert answer(start(untied)) != answer(start(whole))


def set_type(path: Path, number: int) -> None:
    """Change the element type of the first matrix, which stands behind its name and its two dimensions."""
    content = bytearray(path.read_bytes())
    name = b"token_embd.weight"
    start = content.index(name) + len(name) + 4 + 2 * 8
    assert GGML_TYPES[int.from_bytes(content[start : start + 4], "little")].name == "F16"
    content[start : start + 4] = number.to_bytes(4, "little")
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(b""), "is not a GGUF file: it does not begin with 'GGUF'"),
        (lambda path: path.write_bytes(b"GGUF"), "is truncated"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "100 are missing; is it an incomplete download?"),
        (lambda path: path.write_bytes(path.read_bytes()[:3000]), "is it damaged or an incomplete download?"),
        (lambda path: path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 16), "it claims 18446744073709551615"),
        (lambda path: path.write_bytes(b"GGUF" + (1).to_bytes(4, "little") + bytes(64)), "its format version is 1"),
        (lambda path: set_type(path, 99), "tensor 'token_embd.weight' has the unknown type 99"),
        (lambda path: set_type(path, 28), "the tensors 'token_embd.weight' and 'blk.0.attn_q.weight' overlap"),
        (lambda path: set_type(path, 24), "tensor 'token_embd.weight' is stored as I8, which cannot be loaded; there are F32, F16"),
        (lambda path: set_type(path, 20), "stored as IQ4_NL, which cannot be loaded"),
    ],
)
def test_a_damaged_file_is_refused(
    file: Path, damage: Callable[[Path], object], said: str, start: Callable[..., LLM], generate: Callable[..., Finished]
) -> None:
    damage(file)
    with pytest.raises(CheckpointError) as caught:
        start(file)
    assert said in str(caught.value)
    finished = generate(file)
    assert finished.code == 1
    assert said in finished.error


def test_one_part_of_a_split_file_is_refused_with_the_way_out(file: Path, start: Callable[..., LLM]) -> None:
    for part in (1, 2):
        shutil.copy(file, file.parent / f"model-0000{part}-of-00002.gguf")
    file.unlink()
    for model in (file.parent, file.parent / "model-00001-of-00002.gguf"):
        with pytest.raises(CheckpointError, match=r"split GGUF file.*llama-gguf-split --merge"):
            start(model)


def rewrite(source: Path, path: Path, *, architecture: str = "llama", **shapes: tuple[int, ...]) -> Path:
    """A file with another name of its architecture, or tensors of other shapes."""
    reader = GGUFReader(source)
    writer = GGUFWriter(path, architecture)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            value = field.contents()
            writer.add_key_value(name, value, field.types[0], field.types[1] if len(field.types) > 1 else None)
    for tensor in reader.tensors:
        data = np.zeros(shapes[tensor.name], np.float32) if tensor.name in shapes else tensor.data
        writer.add_tensor(tensor.name, data, raw_dtype=GGMLQuantizationType.F32 if tensor.name in shapes else tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("blk.0.attn_q.weight", (62, 64), r"'model\.layers\.0\.self_attn\.q_proj\.weight' has shape \(62, 64\)"),
        ("blk.0.attn_q.weight", (128, 64), r"has shape \(128, 64\), the configuration asks for \(64, 64\)"),
        ("blk.0.attn_norm.weight", (63,), r"'model\.layers\.0\.input_layernorm\.weight' has shape \(63,\)"),
    ],
)
def test_a_tensor_of_another_shape_is_named(
    whole: Path, tmp_path: Path, name: str, shape: tuple[int, ...], said: str, start: Callable[..., LLM]
) -> None:
    with pytest.raises(CheckpointError, match=said):
        start(rewrite(whole, tmp_path / "odd.gguf", **{name: shape}))


def test_an_unknown_architecture_lists_what_there_is(whole: Path, tmp_path: Path, start: Callable[..., LLM]) -> None:
    with pytest.raises(ConfigurationError, match=r"no model of architecture 'mamba': there are .*llama"):
        start(rewrite(whole, tmp_path / "mamba.gguf", architecture="mamba"))
