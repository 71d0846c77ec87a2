"""Every family keeps the promises that pieces make."""

from collections.abc import Callable
from typing import Any

import pytest

from octavo_models.testing.conformance import MODEL_CASES, ModelUnderTest, check_model

FAMILIES: dict[str, dict[str, Any]] = {
    "qwen2": {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2},
    "qwen3": {"num_hidden_layers": 2},
    "qwen3_moe": {"mlp_only_layers": [0], "num_experts": 4},
    "phi3": {"num_hidden_layers": 2, "partial_rotary_factor": 0.5},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", MODEL_CASES)
def test_the_model_conforms(reference: Callable[..., Any], read_family: Callable[..., ModelUnderTest], family: str, case: str) -> None:
    check_model(read_family(reference(family, **FAMILIES[family]).folder, family), case)
