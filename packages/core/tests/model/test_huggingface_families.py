"""What the families say in their own words."""

from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.config import ExpertsConfig, ModelConfig
from octavo.model.huggingface_config import from_huggingface

SPARSE = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_hidden_layers": 4}
WINDOW = {"use_sliding_window": True, "sliding_window": 64}
ALTERNATING = ["sliding_attention", "full_attention"]


def windows(config: ModelConfig) -> list[int | None]:
    return [config.window(layer) for layer in range(config.num_layers)]


def test_qwen2_has_a_bias_on_query_key_and_value_alone(huggingface_config: dict[str, Any]) -> None:
    config = from_huggingface(huggingface_config | {"model_type": "qwen2"})
    assert (config.attention_bias, config.output_bias, config.qk_norm) == (True, False, False)


def test_qwen3_has_norms_heads_of_its_own_size_and_both_biases_or_none(huggingface_config: dict[str, Any]) -> None:
    config = from_huggingface(huggingface_config | {"model_type": "qwen3"})
    assert (config.qk_norm, config.head_size, config.attention_bias, config.output_bias) == (True, 128, False, False)
    config = from_huggingface(huggingface_config | {"model_type": "qwen3", "attention_bias": True, "head_dim": 32})
    assert (config.head_size, config.attention_bias, config.output_bias) == (32, True, True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "qwen2"}, [None, None]),
        ({"model_type": "qwen2", "sliding_window": 64}, [None, None]),
        ({"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 64, "max_window_layers": 0}, [None, None]),
        ({"model_type": "qwen2", **WINDOW}, [None, None]),
        ({"model_type": "qwen2", **WINDOW, "max_window_layers": 1}, [None, 64]),
        ({"model_type": "qwen3", **WINDOW, "max_window_layers": 0}, [64, 64]),
        ({"model_type": "qwen3", **WINDOW, "sliding_window": None}, [None, None]),
        ({"model_type": "qwen3", **WINDOW, "layer_types": ALTERNATING, "max_window_layers": 0}, [64, None]),
        ({"model_type": "qwen3", "sliding_window": 64, "layer_types": ALTERNATING}, [None, None]),
        ({"model_type": "phi3", "sliding_window": 64}, [64, 64]),
        ({"model_type": "phi3", "sliding_window": None}, [None, None]),
        (SPARSE | WINDOW | {"max_window_layers": 3}, [64, 64, 64, 64]),
        (SPARSE | {"sliding_window": 64}, [None, None, None, None]),
    ],
)
def test_windows_of_layers(huggingface_config: dict[str, Any], changes: dict[str, Any], expected: list[int | None]) -> None:
    config = from_huggingface(huggingface_config | changes)
    assert windows(config) == expected
    assert (config.windowed_layers is None) == (len(set(expected)) == 1)


@pytest.mark.parametrize(
    ("changes", "normalize", "dense"),
    [
        ({}, False, ()),
        ({"norm_topk_prob": True}, True, ()),
        ({"mlp_only_layers": [1, 3]}, False, (1, 3)),
        ({"decoder_sparse_step": 2}, False, (0, 2)),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [3]}, False, (0, 2, 3)),
        ({"num_experts": None, "num_local_experts": 8}, False, ()),
    ],
)
def test_experts_and_the_layers_without(
    huggingface_config: dict[str, Any], changes: dict[str, Any], normalize: bool, dense: tuple[int, ...]
) -> None:
    config = from_huggingface(huggingface_config | SPARSE | changes)
    assert config.experts == ExpertsConfig(
        num_experts=8, num_experts_per_token=2, intermediate_size=32, normalize_weights=normalize, dense_layers=dense
    )


def test_the_text_model_of_a_larger_one_is_read_with_the_fields_at_the_top_going_first(huggingface_config: dict[str, Any]) -> None:
    nested = huggingface_config | {"tie_word_embeddings": True, "model_type": "llama"}
    config = from_huggingface({"model_type": "qwen2", "vocab_size": 400, "num_hidden_layers": None, "text_config": nested})
    assert (config.architecture, config.vocab_size, config.num_layers, config.tie_embeddings) == ("qwen2", 400, 2, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "qwen2", **WINDOW, "layer_types": ["sliding_attention"]}, "a list of 2 kinds"),
        ({"model_type": "qwen2", **WINDOW, "layer_types": ["chunked_attention", "full_attention"]}, "chunked_attention"),
        ({"model_type": "qwen2", **WINDOW, "layer_types": [["full_attention"], "full_attention"]}, "layer_types"),
        ({"model_type": "qwen3", **WINDOW, "max_window_layers": -1}, "max_window_layers is -1"),
        (SPARSE | {"num_experts_per_tok": 9}, "9 of 8 experts"),
        (SPARSE | {"moe_intermediate_size": None}, "no 'moe_intermediate_size'"),
        (SPARSE | {"mlp_only_layers": "1"}, "mlp_only_layers"),
        (SPARSE | {"decoder_sparse_step": 0}, "decoder_sparse_step"),
    ],
)
def test_what_cannot_be_is_refused_by_name(huggingface_config: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        from_huggingface(huggingface_config | changes)
