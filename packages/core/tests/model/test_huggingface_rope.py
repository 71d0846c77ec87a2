"""Rotary parameters in all their spellings, and the length that follows from them."""

import math
from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.config import RopeConfig
from octavo.model.huggingface_config import from_huggingface

YARN = {"factor": 4.0, "original_max_position_embeddings": 64}
FACTORS = {"short_factor": [1.0] * 8, "long_factor": [2] * 8}
YARN_ROPE = RopeConfig(theta=1e4, dim=16, kind="yarn", factor=4.0, original_max_position=64, attention_factor=1 + 0.1 * math.log(4.0))
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def longrope(attention_factor: float, original: int = 64) -> RopeConfig:
    return RopeConfig(
        theta=1e4,
        dim=16,
        kind="longrope",
        original_max_position=original,
        short_factors=(1.0,) * 8,
        long_factors=(2.0,) * 8,
        attention_factor=attention_factor,
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rope_scaling": {"type": "yarn", **YARN}}, YARN_ROPE),
        ({"rope_scaling": {"rope_type": "yarn", **YARN}}, YARN_ROPE),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, **YARN}}, YARN_ROPE),
        ({"original_max_position_embeddings": 64, "rope_scaling": {"type": "yarn", "factor": 4.0}}, YARN_ROPE),
        (
            {"rope_scaling": {"type": "dynamic", "factor": 2}},
            RopeConfig(theta=1e4, dim=16, kind="dynamic", factor=2.0, original_max_position=256),
        ),
        (
            {"rope_scaling": {"type": "llama3", **LLAMA3}},
            RopeConfig(theta=1e4, dim=16, kind="llama3", factor=8.0, original_max_position=256),
        ),
        (
            {"original_max_position_embeddings": 64, "rope_scaling": {"type": "longrope", **FACTORS}},
            longrope(math.sqrt(1 + math.log(4) / math.log(64))),
        ),
        ({"rope_scaling": {"type": "su", "original_max_position_embeddings": 64, "factor": 1, **FACTORS}}, longrope(1.0)),
        (
            {
                "model_type": "phi3",
                "original_max_position_embeddings": 64,
                "rope_scaling": {"type": "yarn", "attention_factor": 1.5, **FACTORS},
            },
            longrope(1.5),
        ),
        ({"model_type": "phi3", "rope_scaling": {"type": "longrope", **FACTORS}}, longrope(1.0, original=4096)),
    ],
)
def test_parameters(huggingface_config: dict[str, Any], changes: dict[str, Any], expected: RopeConfig) -> None:
    assert from_huggingface(huggingface_config | changes).rope == expected


@pytest.mark.parametrize(
    ("further", "attention_factor"),
    [
        ({"attention_factor": 1.5}, 1.5),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        ({"mscale": 2.0, "mscale_all_dim": 1.0}, (0.2 * math.log(4) + 1) / (0.1 * math.log(4) + 1)),
        ({"mscale": 1.0, "mscale_all_dim": 0}, 0.1 * math.log(4) + 1),
    ],
)
def test_attention_factor_of_yarn(huggingface_config: dict[str, Any], further: dict[str, Any], attention_factor: float) -> None:
    rope = from_huggingface(huggingface_config | {"rope_scaling": {"type": "yarn", **YARN, **further}}).rope
    assert rope.attention_factor == pytest.approx(attention_factor)


@pytest.mark.parametrize(
    ("changes", "longest"),
    [
        ({}, 256),
        ({"rope_scaling": {"type": "linear", "factor": 2.5}}, 640),
        ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, 1024),
        ({"rope_scaling": {"type": "llama3", "original_max_position_embeddings": 64, **LLAMA3}}, 256),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, 1024),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}}, 1024),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}, 256),
        ({"original_max_position_embeddings": 64, "rope_scaling": {"type": "longrope", **FACTORS}}, 256),
    ],
)
def test_longest_sequence(huggingface_config: dict[str, Any], changes: dict[str, Any], longest: int) -> None:
    assert from_huggingface(huggingface_config | changes).max_position == longest


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"type": "mrope", "mrope_section": [4, 2, 2]}, "'mrope' is not supported; default, linear, dynamic, llama3, yarn, longrope are"),
        ({"type": "yarn", "factor": 0}, "factor is 0"),
        ({"type": "yarn", **YARN, "truncate": "no"}, "truncate is 'no'"),
        ({"type": "longrope", "short_factor": [1.0] * 8}, "no 'long_factor'"),
        ({"type": "longrope", **FACTORS, "long_factor": [1.0] * 7}, "a list of 8 positive numbers"),
        ({"type": "longrope", **FACTORS, "short_factor": [1.0] * 7 + ["x"]}, "a list of 8 positive numbers"),
        ({"type": "dynamic"}, "no 'factor'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(huggingface_config: dict[str, Any], scaling: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        from_huggingface(huggingface_config | {"rope_scaling": scaling})


def test_dynamic_scaling_needs_more_than_one_pair(huggingface_config: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="more than 2 rotated dimensions"):
        from_huggingface(huggingface_config | {"head_dim": 2, "rope_scaling": {"type": "dynamic", "factor": 2.0}})
