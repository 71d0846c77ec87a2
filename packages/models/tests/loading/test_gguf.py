"""GGUF files give the tensors, names and row order of the Hugging Face checkpoint of the same model."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter

from octavo.errors import CheckpointError
from octavo.model.huggingface_config import from_huggingface
from octavo_models.loading.gguf import hugging_face_name, open_gguf, restore_row_order
from octavo_models.testing import tiny_llama_config, tiny_llama_weights, write_tiny_gguf

CONFIG = from_huggingface(tiny_llama_config())


def read(path: Path, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    stream = open_gguf((path,), CONFIG, dtype)
    tensors = dict(stream.tensors)
    assert len(tensors) == stream.num_tensors
    return tensors


@pytest.mark.parametrize("config", [{}, {"tie_word_embeddings": False}, {"attention_bias": True}])
def test_unquantized_files_give_the_original_tensors(tmp_path: Path, config: dict[str, bool]) -> None:
    tensors = read(write_tiny_gguf(tmp_path / "tiny.gguf", quantization="F32", **config))
    expected = tiny_llama_weights(tiny_llama_config(**config), 0)
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(tensors[name], torch.from_numpy(value)), name


@pytest.mark.parametrize(("quantization", "error"), [("F16", 2e-3), ("Q8_0", 0.02), ("Q4_1", 0.2)])
def test_quantized_files_give_them_within_the_precision_of_the_format(tmp_path: Path, quantization: str, error: float) -> None:
    tensors = read(write_tiny_gguf(tmp_path / "tiny.gguf", quantization=quantization))
    for name, value in tiny_llama_weights(tiny_llama_config(), 0).items():
        torch.testing.assert_close(tensors[name], torch.from_numpy(value), rtol=0, atol=error * float(np.abs(value).max()))


def test_tensors_come_in_the_type_asked_for(tmp_path: Path) -> None:
    tensors = read(write_tiny_gguf(tmp_path / "tiny.gguf", quantization="Q8_0"), torch.bfloat16)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}


def test_reading_gives_torch_its_threads_back(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    read(write_tiny_gguf(tmp_path / "tiny.gguf"))
    assert torch.get_num_threads() == threads


def test_names_without_a_counterpart_stay() -> None:
    assert hugging_face_name("blk.12.ffn_gate.weight") == "model.layers.12.mlp.gate_proj.weight"
    assert hugging_face_name("output.weight") == "lm_head.weight"
    assert hugging_face_name("blk.0.ffn_gate_exps.weight") == "blk.0.ffn_gate_exps.weight"
    assert hugging_face_name("token_embd.scale") == "token_embd.scale"


def test_rows_that_alternate_between_halves_of_a_head_are_put_back() -> None:
    rows = torch.arange(12)
    assert restore_row_order(torch.tensor([0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]), 2).tolist() == rows.tolist()


def test_frequencies_are_left_to_the_configuration_and_unknown_types_are_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_tensor("rope_freqs.weight", np.ones(8, dtype=np.float32))
    writer.add_tensor("blk.0.attn_q.weight", np.zeros((1, 66), dtype=np.uint8), raw_dtype=GGMLQuantizationType.IQ2_XXS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match=r"'blk\.0\.attn_q\.weight' is stored as IQ2_XXS"):
        read(path)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="truncated"):
        read(path)
