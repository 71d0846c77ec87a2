"""Tiny random models as GGUF files."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from octavo_models.testing.checkpoint import Weights, tiny_llama_config, tiny_llama_weights
from octavo_models.testing.tokenizer import CHAT_TEMPLATE, SPECIAL_TOKENS, write_tiny_tokenizer

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GEMMA3_NAMES = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def write_tiny_gguf(path: Path, *, vocab_size: int = 512, seed: int = 0, quantization: str = "F16", **config: Any) -> Path:
    """Write the model that `write_tiny_llama` writes for the same arguments, as one GGUF file with its tokenizer.

    Args:
        path: of the file.
        vocab_size, seed, config: as there; scaled rotary embeddings are not written.
        quantization: of the matrices: F32, F16, Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0. Vectors are float32.

    Returns:
        The path.
    """
    settings = tiny_llama_config(vocab_size=vocab_size, **config)
    return write_gguf_model(path, settings, tiny_llama_weights(settings, seed), quantization=quantization)


def write_gguf_model(path: Path, settings: Mapping[str, Any], weights: Weights, *, quantization: str = "F16") -> Path:
    """Write a checkpoint of Llama's kind, or of Qwen2's, Qwen3's or Gemma 3's, as one GGUF file with a tiny tokenizer, as converters do.

    Args:
        path: of the file.
        settings: the content of `config.json`; scaled rotary embeddings are not written.
        weights: by Hugging Face name.
        quantization: of the matrices, as in `write_tiny_gguf`.

    Returns:
        The path.
    """
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize

    architecture = settings["model_type"].removesuffix("_text")
    names = _NAMES | (_GEMMA3_NAMES if architecture == "gemma3" else {})
    writer = GGUFWriter(path, architecture)
    _write_shape(writer, settings)
    if architecture == "gemma3":
        _write_gemma3_shape(writer, settings)
    _write_tokenizer(writer, settings["vocab_size"])
    for name, weight in weights.items():
        stem, _, leaf = name.rpartition(".")
        layer = stem.split(".")[2] if stem.startswith("model.layers.") else None
        gguf_name = f"{names[stem]}.{leaf}" if layer is None else f"blk.{layer}.{names[stem.split('.', 3)[3]]}.{leaf}"
        kind = GGMLQuantizationType[quantization if weight.ndim > 1 else "F32"]
        writer.add_tensor(gguf_name, quantize(_as_converted(architecture, stem, weight, settings), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _as_converted(architecture: str, stem: str, weight: npt.NDArray[np.float32], settings: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    if architecture == "gemma3" and stem.endswith("norm"):
        return weight + np.float32(1)
    return _in_gguf_order(stem, weight, settings) if architecture == "llama" else weight


def _in_gguf_order(stem: str, weight: npt.NDArray[np.float32], settings: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    """Query and key projections get the row order of converters: first and second half of a head alternate."""
    heads = settings["num_attention_heads"]
    if stem.endswith("k_proj"):
        heads = settings.get("num_key_value_heads", heads)
    elif not stem.endswith("q_proj"):
        return weight
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))


def _write_shape(writer: Any, settings: Mapping[str, Any]) -> None:
    heads = settings["num_attention_heads"]
    head_size = settings.get("head_dim") or settings["hidden_size"] // heads
    writer.add_context_length(settings["max_position_embeddings"])
    writer.add_embedding_length(settings["hidden_size"])
    writer.add_block_count(settings["num_hidden_layers"])
    writer.add_feed_forward_length(settings["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(settings.get("num_key_value_heads", heads))
    writer.add_key_length(head_size)
    writer.add_value_length(head_size)
    writer.add_rope_dimension_count(head_size)
    writer.add_rope_freq_base(settings["rope_theta"])
    writer.add_layer_norm_rms_eps(settings["rms_norm_eps"])
    writer.add_vocab_size(settings["vocab_size"])


def _write_gemma3_shape(writer: Any, settings: Mapping[str, Any]) -> None:
    writer.add_sliding_window(settings["sliding_window"])
    writer.add_uint32("gemma3.attention.sliding_window_pattern", settings["sliding_window_pattern"])
    writer.add_float32("gemma3.rope.freq_base_swa", settings["rope_local_base_freq"])
    writer.add_attention_scale(settings["query_pre_attn_scalar"] ** -0.5)


def _write_tokenizer(writer: Any, vocab_size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_tiny_tokenizer(Path(folder), vocab_size)
        model = json.loads((Path(folder) / "tokenizer.json").read_text())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL_TOKENS else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
