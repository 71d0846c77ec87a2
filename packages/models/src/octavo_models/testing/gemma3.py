"""Tiny random Gemma 3 checkpoints in the Hugging Face layout."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from octavo_models.testing.checkpoint import Weights, write_weights
from octavo_models.testing.tokenizer import write_tiny_tokenizer


def write_tiny_gemma3(folder: Path, *, vocab_size: int = 512, seed: int = 0, dtype: str = "float32", **config: Any) -> Path:
    """Write a random Gemma 3 with a tokenizer, readable by Octavo and by Transformers alike.

    Args:
        folder: made if need be.
        vocab_size: of model and tokenizer, 259 to about 4,100.
        seed: of the weights.
        dtype: of the stored weights: float32, float16 or bfloat16.
        **config: fields of `config.json` that differ from a small default; None leaves a field out.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = tiny_gemma3_config(vocab_size=vocab_size, dtype=dtype, **config)
    (folder / "config.json").write_text(json.dumps(settings, indent=2))
    write_tiny_tokenizer(folder, vocab_size)
    write_weights(folder, tiny_gemma3_weights(settings, seed), dtype=dtype)
    return folder


def tiny_gemma3_config(*, vocab_size: int = 512, dtype: str = "float32", **config: Any) -> dict[str, Any]:
    """The content of `config.json`: six layers of which the third and the sixth see everything, a window of 8, hidden size 48, four query
    heads over two KV heads of size 16, unless `config` differs."""
    settings: dict[str, Any] = {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "vocab_size": vocab_size,
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6,
        "rope_theta": 50_000.0,
        "rope_local_base_freq": 100.0,
        "query_pre_attn_scalar": 24,
        "sliding_window": 8,
        "sliding_window_pattern": 3,
        "max_position_embeddings": 512,
        "attention_bias": False,
        "bos_token_id": 1,
        "eos_token_id": [2, 5],
        "pad_token_id": 0,
        "torch_dtype": dtype,
    } | config
    return {name: value for name, value in settings.items() if value is not None}


def tiny_gemma3_weights(settings: Mapping[str, Any], seed: int) -> Weights:
    """Random weights by Hugging Face name, scaled so that layers outweigh the embedding and norms differ; norms are told from 1 on."""
    draw = np.random.default_rng(seed)
    hidden, inner, head = settings["hidden_size"], settings["intermediate_size"], settings["head_dim"]
    heads, kv_heads = settings["num_attention_heads"] * head, settings["num_key_value_heads"] * head

    def normal(rows: int, columns: int, gain: float) -> npt.NDArray[np.float32]:
        return (draw.standard_normal((rows, columns)) * gain / math.sqrt(columns)).astype(np.float32)

    def from_one(size: int, mean: float = 0.0) -> npt.NDArray[np.float32]:
        return (mean + 0.2 * draw.standard_normal(size)).astype(np.float32)

    weights = {"model.embed_tokens.weight": normal(settings["vocab_size"], hidden, 1.5)}
    for layer in range(settings["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        projections = {
            "self_attn.q_proj": (heads, hidden, 2.0),
            "self_attn.k_proj": (kv_heads, hidden, 2.0),
            "self_attn.v_proj": (kv_heads, hidden, 1.0),
            "self_attn.o_proj": (hidden, heads, 1.0),
            "mlp.gate_proj": (inner, hidden, 1.0),
            "mlp.up_proj": (inner, hidden, 1.0),
            "mlp.down_proj": (hidden, inner, 1.0),
        }
        for name, shape in projections.items():
            weights[f"{prefix}.{name}.weight"] = normal(*shape)
            if settings["attention_bias"] and name.startswith("self_attn"):
                weights[f"{prefix}.{name}.bias"] = from_one(shape[0])
        weights[f"{prefix}.self_attn.q_norm.weight"] = from_one(head)
        weights[f"{prefix}.self_attn.k_norm.weight"] = from_one(head)
        weights[f"{prefix}.input_layernorm.weight"] = from_one(hidden)
        weights[f"{prefix}.pre_feedforward_layernorm.weight"] = from_one(hidden)
        # What layers add is normed last, and has to outweigh an embedding that is scaled up.
        weights[f"{prefix}.post_attention_layernorm.weight"] = from_one(hidden, 1.0)
        weights[f"{prefix}.post_feedforward_layernorm.weight"] = from_one(hidden, 1.0)
    weights["model.norm.weight"] = from_one(hidden)
    if not settings.get("tie_word_embeddings", True):
        weights["lm_head.weight"] = normal(settings["vocab_size"], hidden, 1.5)
    return weights
