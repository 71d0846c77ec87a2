from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.huggingface_config import from_huggingface

GEMMA_4B = {
    "model_type": "gemma3",
    "eos_token_id": [1, 106],
    "vision_config": {"hidden_size": 1152},
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "torch_dtype": "bfloat16",
}
"""As published: what equals the defaults is left out."""


def read(**changes: Any) -> ModelConfig:
    return from_huggingface({"model_type": "gemma3_text", "num_hidden_layers": 6, **changes})


def test_a_published_file_is_completed_by_the_defaults_of_transformers() -> None:
    config = from_huggingface(GEMMA_4B)
    assert (config.num_heads, config.num_kv_heads, config.head_size, config.vocab_size) == (8, 4, 256, 262_208)
    assert config.rope == RopeConfig(theta=1e6, dim=256, kind="linear", factor=8.0)
    assert config.local_rope == RopeConfig(theta=1e4, dim=256)
    assert config.max_position == 131_072
    assert [layer for layer in range(34) if config.window(layer) is None] == [5, 11, 17, 23, 29]
    assert {config.window(layer) for layer in range(34)} == {None, 1024}
    assert config.attention_scale == 1 / 16
    assert config.embedding_scale == 2560**0.5
    assert (config.qk_norm, config.tie_embeddings, config.activation) == (True, True, "gelu_tanh")
    assert (config.eos_token_ids, config.stored_dtype) == ((1, 106), "bfloat16")
    assert (config.attention_soft_cap, config.logit_soft_cap) == (None, None)


@pytest.mark.parametrize(
    "spelling",
    [
        {"rope_theta": 500.0, "rope_local_base_freq": 50.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_theta": 500.0, "rope_local_base_freq": 50.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            }
        },
    ],
)
def test_both_rotary_embeddings_are_read_in_every_spelling(spelling: dict[str, Any]) -> None:
    config = read(**spelling)
    assert config.rope == RopeConfig(theta=500.0, dim=256, kind="linear", factor=2.0)
    assert config.local_rope == RopeConfig(theta=50.0, dim=256)


@pytest.mark.parametrize(
    "spelling",
    [
        {"sliding_window_pattern": 3},
        {"_sliding_window_pattern": 3},
        {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2, "sliding_window_pattern": 2},
    ],
)
def test_which_layers_have_the_window_is_read_in_every_spelling(spelling: dict[str, Any]) -> None:
    assert read(**spelling).windowed_layers == (True, True, False) * 2


@pytest.mark.parametrize("off", [{"sliding_window": None}, {"use_sliding_window": False}])
def test_without_a_window_local_layers_keep_their_rotary_embedding(off: dict[str, Any]) -> None:
    config = read(**off)
    assert {config.window(layer) for layer in range(6)} == {None}
    assert config.windowed_layers == (True,) * 5 + (False,)


def test_caps_are_read() -> None:
    config = read(attn_logit_softcapping=50.0, final_logit_softcapping=30.0)
    assert (config.attention_soft_cap, config.logit_soft_cap) == (50.0, 30.0)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("hidden_activation", "gelu", "'gelu' is not supported"),
        ("use_bidirectional_attention", True, "both directions"),
        ("layer_types", ["full_attention"], "list of 6 kinds"),
        ("layer_types", ["full_attention"] * 5 + ["linear_attention"], "list of 6 kinds"),
        ("sliding_window_pattern", 0, "positive integer"),
        ("query_pre_attn_scalar", 0, "positive number"),
        ("rope_scaling", "linear", "rotary parameters"),
        ("rope_parameters", ["linear"], "rotary parameters"),
        ("rope_local_base_freq", "small", "rope_theta"),
        ("final_logit_softcapping", -1.0, "positive number"),
    ],
)
def test_what_cannot_be_is_refused_by_name(field: str, value: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read(**{field: value})
