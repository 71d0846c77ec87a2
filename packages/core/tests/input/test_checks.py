from typing import Any

import pytest

from octavo import SamplingParams
from octavo.engine.messages import ModelInfo
from octavo.errors import InvalidRequestError
from octavo.input.checks import check_params

INFO = ModelInfo(
    vocab_size=100,
    max_model_len=64,
    eos_token_ids=[2, 3],
    block_size=16,
    num_blocks=8,
    max_pool_tokens=128,
    max_logprobs=5,
    logits_processors=["loud", "quiet"],
)


@pytest.mark.parametrize(
    ("given", "param", "said"),
    [
        ({"logprobs": 6}, "logprobs", "at most 5"),
        ({"prompt_logprobs": 10**6}, "prompt_logprobs", "at most 5"),
        ({"logits_processors": {"lod": 1}}, "logits_processors", "there are loud, quiet"),
        ({"allowed_token_ids": [100]}, "allowed_token_ids", r"\[0, 100\)"),
        ({"allowed_token_ids": [2, 3], "min_tokens": 1}, "allowed_token_ids", "only tokens that end"),
        ({"allowed_token_ids": [2, 7], "stop_token_ids": [7], "min_tokens": 1}, "allowed_token_ids", "only tokens that end"),
        (
            {"allowed_token_ids": [7], "stop_token_ids": [7], "min_tokens": 1, "ignore_eos": True},
            "allowed_token_ids",
            "only tokens that end",
        ),
    ],
)
def test_what_the_engine_cannot_do_is_refused_by_name(given: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said) as caught:
        check_params(SamplingParams(**given), INFO)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "given",
    [
        {"logprobs": 5, "prompt_logprobs": 0},
        {"logits_processors": {"loud": 1, "quiet": None}},
        {"allowed_token_ids": [2, 3]},
        {"allowed_token_ids": [2, 3], "min_tokens": 1, "ignore_eos": True},
        {"allowed_token_ids": [2, 9], "min_tokens": 1},
    ],
)
def test_what_it_can_do_passes(given: dict[str, Any]) -> None:
    check_params(SamplingParams(**given), INFO)
