import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from octavo.cli.main import run
from octavo.testing.installed import write_plugin
from octavo.testing.llm import CHAT_TEMPLATE, word_backend

PLUGIN = """
import octavo

@octavo.hookimpl
def octavo_register_runners(registry):
    registry.register("fake", "octavo.testing.runner:FakeRunner")

@octavo.hookimpl
def octavo_register_commands(registry):
    registry.register("greet", "{module}_commands:greet", summary="Greet somebody.")
    registry.register("bench greet", "{module}_commands:greet")
"""
COMMANDS = """
def greet(name: str) -> None:
    "Greet somebody."
    print(f"hello {name}")
"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class Finished:
    """What a command line left."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def logging_is_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def octavo(capfd: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Run a command line in this process."""

    def call(*arguments: str) -> Finished:
        capfd.readouterr()
        code = run(arguments)
        captured = capfd.readouterr()
        return Finished(code, captured.out, captured.err)

    return call


@pytest.fixture
def fake_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The only plugin: it registers the runner "fake" and the commands "greet" and "bench greet"."""
    folder = tmp_path / "site"
    folder.mkdir()
    module = write_plugin(folder, "clifake", "")
    (folder / f"{module}.py").write_text(PLUGIN.format(module=module), encoding="utf-8")
    (folder / f"{module}_commands.py").write_text(COMMANDS, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", "clifake")
    monkeypatch.delenv("OCTAVO_PLUGINS_BLOCK", raising=False)
    yield "clifake"
    for name in (module, f"{module}_commands"):
        sys.modules.pop(name, None)


@pytest.fixture
def fake_model(tmp_path: Path, fake_plugin: str) -> tuple[str, ...]:
    """Flags for a model of words that the fake runner runs."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    word_backend(["user", "assistant", "hello", "there"]).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHAT_TEMPLATE, "eos_token": "</s>"}))
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return ("--model", str(folder), "--runner", "fake")
