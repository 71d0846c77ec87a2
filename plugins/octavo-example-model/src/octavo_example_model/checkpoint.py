"""Writes a tiny random checkpoint of the architecture: `python -m octavo_example_model.checkpoint FOLDER`."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from octavo_models.testing import write_tiny_tokenizer, write_weights

Weights = dict[str, npt.NDArray[np.float32]]


def write_checkpoint(folder: Path, *, seed: int = 0, dtype: str = "float32", **config: Any) -> Path:
    """Write `config.json`, a tokenizer and weights; `config` replaces fields. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {
        "model_type": "example-gpt",
        "vocab_size": 512,
        "n_embd": 64,
        "n_inner": 192,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 512,
        "layer_norm_epsilon": 1e-5,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": dtype,
    } | config
    (folder / "config.json").write_text(json.dumps(settings, indent=2))
    write_tiny_tokenizer(folder, settings["vocab_size"])
    write_weights(folder, random_weights(settings, seed), dtype=dtype)
    return folder


def random_weights(settings: dict[str, Any], seed: int) -> Weights:
    """Weights by name, scaled so that every part of a layer shows in the output."""
    draw = np.random.default_rng(seed)
    vocab, hidden, inner = settings["vocab_size"], settings["n_embd"], settings["n_inner"]
    head = hidden // settings["n_head"]

    def normal(*shape: int, gain: float = 1.0) -> npt.NDArray[np.float32]:
        return draw.standard_normal(shape, dtype=np.float32) * np.float32(gain / shape[-1] ** 0.5)

    def norm(name: str) -> Weights:
        return {f"{name}.weight": 1 + normal(hidden), f"{name}.bias": normal(hidden)}

    weights = {"embedding.weight": normal(vocab, hidden, gain=4.0)} | norm("norm")
    for layer in range(settings["n_layer"]):
        name = f"layers.{layer}"
        weights |= norm(f"{name}.norm")
        weights[f"{name}.blend.weight"] = np.array([0.9, 0.2], dtype=np.float32)
        weights[f"{name}.attention.query.weight"] = normal(hidden, hidden, gain=2.0)
        weights[f"{name}.attention.key.weight"] = normal(head, hidden, gain=2.0)
        weights[f"{name}.attention.value.weight"] = normal(head, hidden)
        weights[f"{name}.attention.output.weight"] = normal(hidden, hidden, gain=3.0)
        weights[f"{name}.mlp.up.weight"] = normal(inner, hidden)
        weights[f"{name}.mlp.up.bias"] = normal(inner)
        weights[f"{name}.mlp.down.weight"] = normal(hidden, inner, gain=2.0)
        weights[f"{name}.mlp.down.bias"] = normal(hidden)
    return weights | {"head.weight": normal(vocab, hidden, gain=4.0)}


if __name__ == "__main__":
    write_checkpoint(Path(sys.argv[1]))
