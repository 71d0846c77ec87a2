from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.gguf_config import from_gguf
from octavo.model.gguf_metadata import read_gguf_metadata

Read = Callable[..., ModelConfig]


@pytest.fixture
def read(write_gguf: Callable[..., Path], llama_values: dict[str, Any], llama_tensors: Any) -> Read:
    """`read(**changes)` -> the shape of a tiny Gemma 3; keys without their prefix, None removes one."""
    values = {key.replace("llama.", "gemma3."): value for key, value in llama_values.items()}
    values |= {"general.architecture": "gemma3", "gemma3.block_count": 12, "gemma3.attention.sliding_window": 64}

    def read_changed(changes: dict[str, Any] | None = None) -> ModelConfig:
        changed = values | {f"gemma3.{key}": value for key, value in (changes or {}).items()}
        return from_gguf(read_gguf_metadata(write_gguf({key: value for key, value in changed.items() if value is not None}, llama_tensors)))

    return read_changed


def test_what_files_leave_unsaid_is_known(read: Read) -> None:
    config = read({"rope.freq_base": 1e6, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0})
    assert config.rope == RopeConfig(theta=1e6, dim=16, kind="linear", factor=8.0)
    assert config.local_rope == RopeConfig(theta=1e4, dim=16)
    assert config.windowed_layers == ((True,) * 5 + (False,)) * 2
    assert (config.window(0), config.window(5)) == (64, None)
    assert (config.attention_scale, config.embedding_scale, config.activation) == (0.25, 8.0, "gelu_tanh")
    assert (config.logit_soft_cap, config.max_position) == (None, 256)


def test_the_largest_model_scales_scores_by_hidden_size_over_heads(read: Read) -> None:
    config = read({"block_count": 62, "attention.head_count": 2, "attention.key_length": 8})
    assert config.attention_scale == 32**-0.5


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"attention.sliding_window_pattern": 3}, "windowed_layers", (True, True, False) * 4),
        ({"attention.sliding_window_pattern": [True, False] * 6}, "windowed_layers", (True, False) * 6),
        ({"attention.sliding_window": None}, "sliding_window", None),
        ({"attention.scale": 0.5}, "attention_scale", 0.5),
        ({"rope.freq_base_swa": 500.0}, "local_rope", RopeConfig(theta=500.0, dim=16)),
        ({"final_logit_softcapping": 30.0}, "logit_soft_cap", 30.0),
    ],
)
def test_keys_that_newer_files_have_go_before(read: Read, changes: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(read(changes), field) == value


def test_a_pattern_of_another_length_is_refused(read: Read) -> None:
    with pytest.raises(CheckpointError, match="list of 12 truth values"):
        read({"attention.sliding_window_pattern": [True, False]})
