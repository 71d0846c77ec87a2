import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.gguf_config import from_gguf
from octavo.model.gguf_metadata import read_gguf_metadata

Tensors = dict[str, tuple[tuple[int, ...], int, bytes]]


@pytest.fixture
def read(write_gguf: Callable[..., Path], llama_values: dict[str, Any], llama_tensors: Tensors) -> Callable[..., ModelConfig]:
    """`read(changes, more_tensors)` -> the shape of the tiny Llama with changes; None removes a key."""

    def read_changed(changes: dict[str, Any] | None = None, more: Tensors | None = None) -> ModelConfig:
        values = {key: value for key, value in (llama_values | (changes or {})).items() if value is not None}
        return from_gguf(read_gguf_metadata(write_gguf(values, llama_tensors | (more or {}))))

    return read_changed


def test_explicit_fields_of_a_llama(read: Callable[..., ModelConfig]) -> None:
    config = read()
    assert (config.architecture, config.vocab_size, config.hidden_size, config.intermediate_size) == ("llama", 10, 64, 96)
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_size, config.max_position) == (2, 4, 2, 16, 256)
    assert config.rms_norm_eps == 1e-5
    assert config.rope == RopeConfig(theta=10000.0, dim=16)
    assert (config.tie_embeddings, config.attention_bias, config.mlp_bias, config.sliding_window) == (True, False, False, None)
    assert (config.eos_token_ids, config.bos_token_id, config.stored_dtype) == ((2,), 1, "float16")


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"llama.attention.key_length": 32}, "head_size", 32),
        ({"llama.attention.head_count_kv": None}, "num_kv_heads", 4),
        ({"llama.attention.sliding_window": 128}, "sliding_window", 128),
        ({"llama.rope.dimension_count": 8}, "rope", RopeConfig(theta=1e4, dim=8)),
        ({"llama.rope.freq_base": None}, "rope", RopeConfig(theta=1e4, dim=16)),
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
            "rope",
            RopeConfig(theta=1e4, dim=16, kind="linear", factor=4),
        ),
        ({"llama.rope.scale_linear": 2.0}, "rope", RopeConfig(theta=1e4, dim=16, kind="linear", factor=2)),
        ({"llama.rope.scaling.type": "none"}, "rope", RopeConfig(theta=1e4, dim=16)),
        ({"tokenizer.ggml.eot_token_id": 7, "tokenizer.ggml.eom_token_id": 2}, "eos_token_ids", (2, 7)),
        ({"tokenizer.ggml.eos_token_id": None}, "eos_token_ids", ()),
        ({"tokenizer.ggml.bos_token_id": None}, "bos_token_id", None),
    ],
)
def test_optional_keys_and_their_defaults(read: Callable[..., ModelConfig], changes: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(read(changes), field) == value


def test_head_and_biases_are_told_by_their_tensors(read: Callable[..., ModelConfig]) -> None:
    config = read(
        None,
        {
            "output.weight": ((10, 64), 1, bytes(1280)),
            "blk.0.attn_q.bias": ((64,), 0, bytes(256)),
            "blk.0.ffn_up.bias": ((96,), 0, bytes(384)),
        },
    )
    assert (config.tie_embeddings, config.attention_bias, config.mlp_bias) == (False, True, True)


def test_norms_of_queries_and_a_bias_on_the_output_are_told_by_their_tensors(read: Callable[..., ModelConfig]) -> None:
    plain = read()
    assert (plain.qk_norm, plain.output_bias) == (False, False)
    more = {"blk.0.attn_q_norm.weight": ((16,), 0, bytes(64)), "blk.0.attn_output.bias": ((64,), 0, bytes(256))}
    config = read(None, more)
    assert (config.qk_norm, config.output_bias, config.attention_bias) == (True, True, False)


def test_yarn_stretches_the_original_length(read: Callable[..., ModelConfig]) -> None:
    scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 128}
    config = read({f"llama.rope.scaling.{key}": value for key, value in scaling.items()})
    assert (config.rope.kind, config.rope.factor, config.rope.original_max_position) == ("yarn", 4.0, 128)
    assert config.rope.attention_factor == pytest.approx(1 + 0.1 * math.log(4))
    assert config.max_position == 512


def test_an_architecture_that_files_of_this_format_hold_differently_is_refused(write_gguf: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match=r"'phi3'.*not supported; use the model's safetensors"):
        from_gguf(read_gguf_metadata(write_gguf({"general.architecture": "phi3"})))


def test_a_quantized_matrix_makes_the_file_quantized(read: Callable[..., ModelConfig]) -> None:
    assert read(None, {"blk.0.ffn_up.weight": ((96, 64), 8, bytes(96 * 2 * 34))}).stored_dtype == "quantized"


def test_frequency_factors_come_from_their_tensor(read: Callable[..., ModelConfig]) -> None:
    factors = (1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)
    rope = read(None, {"rope_freqs.weight": ((8,), 0, struct.pack("<8f", *factors))}).rope
    assert (rope.kind, rope.frequency_factors) == ("default", factors)
    with pytest.raises(CheckpointError, match="must hold 8 positive numbers"):
        read(None, {"rope_freqs.weight": ((4,), 0, struct.pack("<4f", 1, 1, 1, 1))})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.architecture": None}, r"general\.architecture"),
        ({"llama.block_count": None}, r"llama\.block_count"),
        ({"llama.block_count": "2"}, r"llama\.block_count is '2'"),
        ({"llama.attention.head_count": [4, 4]}, "head_count"),
        ({"llama.attention.head_count_kv": 3}, "cannot share 3"),
        ({"llama.expert_count": 8}, "experts"),
        ({"llama.rope.scaling.type": "spiral"}, "'spiral' is not supported; none, linear and yarn are"),
        ({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0}, "original_context_length"),
        ({"llama.rope.dimension_count": 18}, "cannot be rotated"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(read: Callable[..., ModelConfig], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read(changes)


def test_a_file_without_embedding_is_refused(write_gguf: Callable[..., Path], llama_values: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match=r"token_embd\.weight"):
        from_gguf(read_gguf_metadata(write_gguf(llama_values)))
