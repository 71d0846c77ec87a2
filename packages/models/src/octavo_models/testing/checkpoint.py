"""Tiny random Llama checkpoints in the Hugging Face layout."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from octavo_models.testing.tokenizer import write_tiny_tokenizer

Weights = dict[str, npt.NDArray[np.float32]]

_CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def write_tiny_llama(
    folder: Path,
    *,
    vocab_size: int = 512,
    seed: int = 0,
    dtype: str = "float32",
    shards: int = 1,
    chat_template: bool = True,
    **config: Any,
) -> Path:
    """Write a random Llama with a tokenizer, readable by Octavo and by Transformers alike.

    Args:
        folder: made if need be.
        vocab_size: of model and tokenizer, 259 to about 4,100.
        seed: of the weights.
        dtype: of the stored weights: float32, float16 or bfloat16.
        shards: weight files; more than one come with an index.
        chat_template: whether the tokenizer has one.
        **config: fields of `config.json` that differ from a small default; None leaves a field out.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = tiny_llama_config(vocab_size=vocab_size, dtype=dtype, **config)
    (folder / "config.json").write_text(json.dumps(settings, indent=2))
    ids = {name: settings[name] for name in ("bos_token_id", "eos_token_id") if name in settings}
    (folder / "generation_config.json").write_text(json.dumps(ids))
    write_tiny_tokenizer(folder, vocab_size, chat_template=chat_template)
    write_weights(folder, tiny_llama_weights(settings, seed), dtype=dtype, shards=shards)
    return folder


def tiny_llama_config(*, vocab_size: int = 512, dtype: str = "float32", **config: Any) -> dict[str, Any]:
    """The content of `config.json`: two layers, hidden size 64, four query heads over two KV heads, tied head, unless `config` differs."""
    settings: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocab_size,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": dtype,
    } | config
    return {name: value for name, value in settings.items() if value is not None}


def tiny_llama_weights(settings: Mapping[str, Any], seed: int) -> Weights:
    """Random weights by Hugging Face name, scaled so that layers outweigh the embedding and greedy text does not stand still."""
    draw = np.random.default_rng(seed)
    hidden, inner, heads = settings["hidden_size"], settings["intermediate_size"], settings["num_attention_heads"]
    kv_heads, head = settings.get("num_key_value_heads", heads), settings.get("head_dim") or hidden // heads

    def normal(*shape: int, gain: float = 1.0) -> npt.NDArray[np.float32]:
        return (draw.standard_normal(shape) * gain / math.sqrt(shape[-1])).astype(np.float32)

    def scale(size: int) -> npt.NDArray[np.float32]:
        return (1 + 0.1 * draw.standard_normal(size)).astype(np.float32)

    weights = {"model.embed_tokens.weight": normal(settings["vocab_size"], hidden, gain=4.0)}
    for layer in range(settings["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        projections = {
            "self_attn.q_proj": (heads * head, hidden, 2.0, settings.get("attention_bias")),
            "self_attn.k_proj": (kv_heads * head, hidden, 2.0, settings.get("attention_bias")),
            "self_attn.v_proj": (kv_heads * head, hidden, 1.0, settings.get("attention_bias")),
            "self_attn.o_proj": (hidden, heads * head, 3.0, settings.get("attention_bias")),
            "mlp.gate_proj": (inner, hidden, 1.0, settings.get("mlp_bias")),
            "mlp.up_proj": (inner, hidden, 1.0, settings.get("mlp_bias")),
            "mlp.down_proj": (hidden, inner, 3.0, settings.get("mlp_bias")),
        }
        for name, (rows, columns, gain, bias) in projections.items():
            weights[f"{prefix}.{name}.weight"] = normal(rows, columns, gain=gain)
            if bias:
                weights[f"{prefix}.{name}.bias"] = normal(rows)
        weights[f"{prefix}.input_layernorm.weight"] = scale(hidden)
        weights[f"{prefix}.post_attention_layernorm.weight"] = scale(hidden)
    weights["model.norm.weight"] = scale(hidden)
    if not settings.get("tie_word_embeddings"):
        weights["lm_head.weight"] = normal(settings["vocab_size"], hidden, gain=4.0)
    return weights


def write_weights(folder: Path, weights: Mapping[str, npt.NDArray[np.float32]], *, dtype: str = "float32", shards: int = 1) -> None:
    """Write `model.safetensors`, or for several shards numbered files and their index."""
    if shards == 1:
        write_safetensors(folder / "model.safetensors", weights, dtype=dtype)
        return
    names = list(weights)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file_name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = names[shard * len(names) // shards : (shard + 1) * len(names) // shards]
        write_safetensors(folder / file_name, {name: weights[name] for name in part}, dtype=dtype)
        weight_map |= dict.fromkeys(part, file_name)
    index = {"metadata": {"total_size": sum(value.size for value in weights.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_safetensors(path: Path, weights: Mapping[str, npt.NDArray[np.float32]], *, dtype: str = "float32") -> None:
    """Write one safetensors file: length of the header, JSON header, data; float32 rounds to the nearest of a narrower `dtype`."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    chunks: list[bytes] = []
    offset = 0
    for name, value in weights.items():
        chunk = _encode(value, dtype)
        header[name] = {"dtype": _CODES[dtype], "shape": list(value.shape), "data_offsets": [offset, offset + len(chunk)]}
        offset += len(chunk)
        chunks.append(chunk)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(chunks))


def _encode(value: npt.NDArray[np.float32], dtype: str) -> bytes:
    if dtype == "float32":
        return value.astype("<f4").tobytes()
    if dtype == "float16":
        return value.astype("<f2").tobytes()
    bits = value.astype("<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()
