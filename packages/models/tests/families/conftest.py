"""Tiny random models of every family, written by hand and read by Transformers and by Octavo alike."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from octavo.plugins.registry import Registry
from octavo_models import plugin
from octavo_models.testing.conformance import ModelUnderTest, read_model
from octavo_models.testing.tokenizer import write_tiny_tokenizer

VOCAB_SIZE = 320
BASE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000.0,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "torch_dtype": "float32",
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "qwen2": {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 1},
    "qwen3": {"head_dim": 32, "attention_bias": False, "use_sliding_window": False, "max_window_layers": 1},
    "qwen3_moe": {
        "head_dim": 32,
        "attention_bias": False,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 48,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "sliding_window": None,
    },
    "phi3": {"sliding_window": None, "original_max_position_embeddings": 256},
}


@dataclass(frozen=True)
class Reference:
    """A checkpoint and what Transformers makes of it."""

    folder: Path
    model: Any

    def logits(self, token_ids: Tensor) -> Tensor:
        """token_ids int64 [N], one sequence as a whole -> float32 [N, V]."""
        with torch.inference_mode():
            logits: Tensor = self.model(token_ids[None], use_cache=False).logits[0]
        return logits

    def greedy(self, token_ids: list[int], count: int) -> list[int]:
        """The next tokens, each from the sequence as a whole."""
        known = list(token_ids)
        for _ in range(count):
            known.append(int(self.logits(torch.tensor(known))[-1].argmax()))
        return known[len(token_ids) :]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Reference]:
    """`reference(family, **changes)` -> a checkpoint, the same for the same arguments; None leaves a field of `config.json` out,
    "null" is a null in it."""
    transformers = pytest.importorskip("transformers")
    made: dict[str, Reference] = {}

    def make(family: str, **changes: Any) -> Reference:
        settings = {name: value for name, value in (BASE | FAMILIES[family] | changes).items() if value is not None or name not in changes}
        settings = {name: None if value == "null" else value for name, value in settings.items()}
        key = json.dumps([family, settings])
        if key not in made:
            made[key] = _write(transformers, tmp_path_factory.mktemp(family), {"model_type": family} | settings)
        return made[key]

    return make


@pytest.fixture(scope="session")
def read_family() -> Callable[[Path, str], ModelUnderTest]:
    """`read_family(folder, family)` -> a checkpoint and the class that is registered for it."""
    registry: Registry[Any] = Registry("model architecture")
    plugin.octavo_register_models(registry)
    return lambda folder, family: read_model(folder, registry.get(family))


def _write(transformers: Any, folder: Path, settings: dict[str, Any]) -> Reference:
    text = json.dumps(settings, indent=2)
    (folder / "config.json").write_text(text)
    config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    _randomize(model)
    model.save_pretrained(folder)
    (folder / "config.json").write_text(text)
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_tiny_tokenizer(folder, VOCAB_SIZE)
    return Reference(folder, model)


def _randomize(model: Any) -> None:
    """Weights under which layers outweigh the embedding, biases and norms show, and greedy text does not stand still."""
    draw = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=draw)
        if name.endswith("norm.weight"):
            parameter.data = 1 + 0.2 * noise
        elif parameter.ndim == 1:
            parameter.data = 0.5 * noise
        else:
            gain = next((gain for part, gain in _GAINS.items() if part in name), 1.0)
            parameter.data = noise * gain / math.sqrt(parameter.shape[-1])
    model.tie_weights()


_GAINS = {
    "embed_tokens": 4.0,
    "lm_head": 2.0,
    "q_proj": 2.0,
    "k_proj": 2.0,
    "qkv_proj": 1.5,
    "o_proj": 3.0,
    "down_proj": 3.0,
    "mlp.gate.": 4.0,
}
