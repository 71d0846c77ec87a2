from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.config import RopeConfig
from octavo.model.huggingface_config import from_huggingface

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def test_explicit_fields_of_a_llama(huggingface_config: dict[str, Any]) -> None:
    config = from_huggingface(huggingface_config)
    assert (config.architecture, config.vocab_size, config.hidden_size, config.intermediate_size) == ("llama", 320, 64, 96)
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_size) == (2, 4, 2, 16)
    assert config.rope == RopeConfig(theta=10000.0, dim=16)
    assert (config.tie_embeddings, config.attention_bias, config.mlp_bias, config.sliding_window) == (False, False, False, None)
    assert (config.eos_token_ids, config.bos_token_id, config.stored_dtype) == ((2,), 1, "bfloat16")


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"head_dim": 32}, "head_size", 32),
        ({"head_dim": None}, "head_size", 16),
        ({"num_key_value_heads": None}, "num_kv_heads", 4),
        ({"tie_word_embeddings": True}, "tie_embeddings", True),
        ({"attention_bias": True}, "attention_bias", True),
        ({"mlp_bias": True}, "mlp_bias", True),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding_window", 4096),
        ({"model_type": "mistral", "sliding_window": None}, "sliding_window", None),
        ({"sliding_window": 4096, "use_sliding_window": False}, "sliding_window", None),
        ({"eos_token_id": [5, 6, 5]}, "eos_token_ids", (5, 6)),
        ({"eos_token_id": None}, "eos_token_ids", ()),
        ({"bos_token_id": None}, "bos_token_id", None),
        ({"dtype": "float16"}, "stored_dtype", "float16"),
        ({"torch_dtype": "torch.float32"}, "stored_dtype", "float32"),
        ({"torch_dtype": None}, "stored_dtype", "float32"),
        ({"rms_norm_eps": 1}, "rms_norm_eps", 1.0),
    ],
)
def test_optional_fields_and_their_defaults(huggingface_config: dict[str, Any], changes: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(from_huggingface(huggingface_config | changes), field) == value


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rope_theta": 5e5}, RopeConfig(theta=5e5, dim=16)),
        ({"rope_theta": 5e5, "rope_scaling": None}, RopeConfig(theta=5e5, dim=16)),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, RopeConfig(theta=1e4, dim=16, kind="linear", factor=2.0)),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, RopeConfig(theta=1e6, dim=16)),
        ({"partial_rotary_factor": 0.5}, RopeConfig(theta=1e4, dim=8)),
        (
            {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
            RopeConfig(theta=5e5, dim=16, kind="llama3", factor=8.0, original_max_position=8192),
        ),
        (
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}},
            RopeConfig(theta=5e5, dim=16, kind="llama3", factor=8.0, original_max_position=8192),
        ),
    ],
)
def test_rotary_parameters_in_both_spellings(huggingface_config: dict[str, Any], changes: dict[str, Any], expected: RopeConfig) -> None:
    assert from_huggingface(huggingface_config | changes).rope == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": None}, "model_type"),
        ({"hidden_size": None}, "no 'hidden_size'"),
        ({"num_hidden_layers": "2"}, "num_hidden_layers is '2'"),
        ({"vocab_size": True}, "vocab_size is True"),
        ({"vocab_size": -1}, "vocab_size is -1"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"num_key_value_heads": 3}, "4 query heads cannot share 3"),
        ({"hidden_size": 66}, "no multiple of 4 heads"),
        ({"hidden_act": "gelu"}, "'gelu' is not supported"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ({"eos_token_id": "</s>"}, "eos_token_id"),
        ({"dtype": "float8_e4m3fn"}, "float8_e4m3fn"),
        ({"rope_scaling": {"rope_type": "spiral", "factor": 4.0}}, "'spiral' is not supported; default, linear, dynamic, "),
        ({"rope_scaling": {"type": "linear"}}, "no 'factor'"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}, "flat object"),
        ({"rope_scaling": "linear"}, "flat object"),
        ({"partial_rotary_factor": 3.0}, "cannot be rotated"),
        ({"quantization_config": {"quant_method": "gptq"}}, "'gptq' are not supported"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(huggingface_config: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        from_huggingface(huggingface_config | changes)


def test_code_that_a_model_brings_is_not_looked_at(huggingface_config: dict[str, Any]) -> None:
    huggingface_config |= {"model_type": "evil", "auto_map": {"AutoModelForCausalLM": "modeling_evil.Evil"}}
    assert from_huggingface(huggingface_config).architecture == "evil"
