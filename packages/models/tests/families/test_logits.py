"""Every family gives the logits of Transformers at each position, in one go and in chunks."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from octavo_models.testing.conformance import ModelUnderTest, chunked_logits

LENGTH = 80
ORIGINAL = 32
YARN = {"factor": 4.0, "original_max_position_embeddings": ORIGINAL}
LLAMA3 = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": ORIGINAL}
SHORT, LONG = [1.0 + 0.1 * pair for pair in range(8)], [1.0 + 0.7 * pair for pair in range(8)]
LONGROPE = {"short_factor": SHORT, "long_factor": LONG}
LATER = {"rope_theta": None}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("qwen2", {}),
    "qwen2, tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2, window from layer 1 on": ("qwen2", {"use_sliding_window": True, "sliding_window": 8}),
    "qwen2, window in all layers": ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}),
    "qwen2, window null": ("qwen2", {"use_sliding_window": True, "sliding_window": "null"}),
    "qwen2, window unsaid": ("qwen2", {"use_sliding_window": None, "sliding_window": 8, "max_window_layers": 0}),
    "qwen2, layer types": (
        "qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "qwen2, yarn by type": ("qwen2", {"max_position_embeddings": ORIGINAL, "rope_scaling": {"type": "yarn", **YARN}}),
    "qwen3": ("qwen3", {}),
    "qwen3, tied": ("qwen3", {"tie_word_embeddings": True}),
    "qwen3, bias": ("qwen3", {"attention_bias": True}),
    "qwen3, window from layer 1 on": ("qwen3", {"use_sliding_window": True, "sliding_window": 8}),
    "qwen3, yarn by rope_type": ("qwen3", {"rope_scaling": {"rope_type": "yarn", **YARN}}),
    "qwen3_moe": ("qwen3_moe", {}),
    "qwen3_moe, weights as they are": ("qwen3_moe", {"norm_topk_prob": False}),
    "qwen3_moe, every second layer": ("qwen3_moe", {"decoder_sparse_step": 2}),
    "qwen3_moe, one layer dense": ("qwen3_moe", {"mlp_only_layers": [1], "num_experts_per_tok": 1}),
    "qwen3_moe, window": ("qwen3_moe", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}),
    "phi3": ("phi3", {}),
    "phi3, window": ("phi3", {"sliding_window": 8}),
    "phi3, tied, half of each head rotated": ("phi3", {"tie_word_embeddings": True, "partial_rotary_factor": 0.5}),
    "phi3, longrope beyond the original length": (
        "phi3",
        {"original_max_position_embeddings": ORIGINAL, "rope_scaling": {"type": "longrope", **LONGROPE}},
    ),
    "phi3, longrope within the original length": (
        "phi3",
        {"original_max_position_embeddings": 128, "rope_scaling": {"type": "longrope", **LONGROPE}},
    ),
    "phi3, su": (
        "phi3",
        {
            "original_max_position_embeddings": ORIGINAL,
            "rope_scaling": {"type": "su", "original_max_position_embeddings": ORIGINAL, **LONGROPE},
        },
    ),
    "phi3, longrope in a part of each head": (
        "phi3",
        {
            "original_max_position_embeddings": ORIGINAL,
            "partial_rotary_factor": 0.5,
            "rope_scaling": {"rope_type": "longrope", "short_factor": SHORT[:4], "long_factor": LONG[:4]},
        },
    ),
    "linear by type": ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}),
    "linear by rope_type": ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "linear, rope_parameters": ("llama", LATER | {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0}}),
    "dynamic by type": ("llama", {"max_position_embeddings": ORIGINAL, "rope_scaling": {"type": "dynamic", "factor": 4.0}}),
    "dynamic by rope_type": ("qwen2", {"max_position_embeddings": ORIGINAL, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    "dynamic, rope_parameters": (
        "llama",
        LATER | {"max_position_embeddings": ORIGINAL, "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1000.0}},
    ),
    "dynamic within the original length": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 4.0}}),
    "llama3 by type": ("llama", {"rope_scaling": {"type": "llama3", **LLAMA3}}),
    "llama3 by rope_type": ("qwen3", {"rope_scaling": {"rope_type": "llama3", **LLAMA3}}),
    "llama3, rope_parameters": ("llama", LATER | {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1000.0, **LLAMA3}}),
    "yarn by type": ("llama", {"rope_scaling": {"type": "yarn", **YARN}}),
    "yarn, rope_parameters": ("llama", LATER | {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1000.0, **YARN}}),
    "yarn, all its parameters": (
        "llama",
        {"rope_scaling": {"rope_type": "yarn", "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.3, "truncate": False, **YARN}},
    ),
    "yarn, mscale": ("llama", {"rope_scaling": {"rope_type": "yarn", "mscale": 1.0, "mscale_all_dim": 0.7, **YARN}}),
    "yarn without an original length": ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
    "longrope": (
        "llama",
        {"rope_scaling": {"rope_type": "longrope", "factor": 8.0, "original_max_position_embeddings": ORIGINAL, **LONGROPE}},
    ),
}
QUICK = (
    "qwen2, window from layer 1 on",
    "qwen3, yarn by rope_type",
    "qwen3_moe, every second layer",
    "phi3, longrope beyond the original length",
    "dynamic by type",
    "yarn, all its parameters",
)
PARAMETERS = [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", PARAMETERS)
def test_logits_equal_those_of_transformers_at_each_position(
    reference: Callable[..., Any], read_family: Callable[..., ModelUnderTest], case: str
) -> None:
    family, changes = CASES[case]
    expected = reference(family, **changes)
    model = read_family(expected.folder, family)
    token_ids = model.tokens(LENGTH)
    logits = expected.logits(token_ids)
    built = model.build()
    torch.testing.assert_close(chunked_logits(built, token_ids, [LENGTH]), logits, rtol=0, atol=1e-4)
    torch.testing.assert_close(chunked_logits(built, token_ids, [16, 16, 1, 16, 31]), logits, rtol=0, atol=1e-4)
