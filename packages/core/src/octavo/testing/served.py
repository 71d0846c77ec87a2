"""A model of words and a plugin that runs it, written into a folder: for engines in processes of their own."""

import json
from pathlib import Path

from octavo.testing.installed import write_plugin
from octavo.testing.llm import CHAT_TEMPLATE, word_backend

_PLUGIN = """
import octavo

@octavo.hookimpl
def octavo_register_runners(registry):
    registry.register("fake", "octavo.testing.runner:FakeRunner")
    for name in {runners}:
        registry.register(name.lower(), "{module}_runners:" + name)
"""
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def write_fake_model(folder: Path, *, max_position_embeddings: int = 512) -> Path:
    """A folder in `folder` with a model of 1000 words, which the runner "fake" runs."""
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({**_CONFIG, "max_position_embeddings": max_position_embeddings}))
    word_backend(["user", "assistant", "hello", "there"]).save(str(model / "tokenizer.json"))
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHAT_TEMPLATE, "eos_token": "</s>"}))
    (model / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return model


def write_fake_plugin(folder: Path, *, runners: str = "", names: tuple[str, ...] = ()) -> str:
    """A plugin that registers the runner "fake", to be found where `folder` is on `sys.path`; its name.

    Args:
        folder: that exists.
        runners: source of a module with further runners.
        names: their classes, registered by their names in lower case.
    """
    module = write_plugin(folder, "served", "")
    (folder / f"{module}.py").write_text(_PLUGIN.format(module=module, runners=names), encoding="utf-8")
    (folder / f"{module}_runners.py").write_text(runners, encoding="utf-8")
    return "served"
