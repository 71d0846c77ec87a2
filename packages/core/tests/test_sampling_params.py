from typing import Any

import msgspec
import pytest

from octavo import SamplingParams
from octavo.errors import InvalidRequestError
from octavo.sampling_params import check_against_vocabulary

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1),
        ("temperature", NAN),
        ("temperature", INF),
        ("temperature", "x"),
        ("temperature", 999999),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.1),
        ("top_p", -1),
        ("top_k", -2),
        ("top_k", 1.5),
        ("min_p", 2),
        ("min_p", -0.1),
        ("repetition_penalty", 0),
        ("repetition_penalty", -1),
        ("presence_penalty", 3),
        ("frequency_penalty", -2.1),
        ("n", 0),
        ("n", 10**6),
        ("n", True),
        ("seed", 2**70),
        ("seed", "7"),
        ("max_tokens", -1),
        ("min_tokens", -1),
        ("min_tokens", 17),
        ("stop", ""),
        ("stop", 5),
        ("stop", [""]),
        ("stop", ["a", ""]),
        ("stop", [1]),
        ("stop", ["a"] * 10**5),
        ("stop_token_ids", ["a"]),
        ("stop_token_ids", 5),
        ("ignore_eos", 1),
        ("logit_bias", {"5": 1}),
        ("logit_bias", {"abc": 1}),
        ("logit_bias", {-1: 1}),
        ("logit_bias", {5: 101}),
        ("logit_bias", {5: NAN}),
        ("logit_bias", {5: "x"}),
        ("logit_bias", [5]),
        ("logprobs", -1),
        ("logprobs", True),
        ("logprobs", 1.0),
        ("prompt_logprobs", -1),
        ("prompt_logprobs", "2"),
        ("allowed_token_ids", []),
        ("allowed_token_ids", 5),
        ("allowed_token_ids", ["5"]),
        ("allowed_token_ids", [True]),
        ("bad_words", "word"),
        ("bad_words", [""]),
        ("bad_words", [" "]),
        ("bad_words", ["fine", 5]),
        ("bad_words", ["a"] * 10**5),
        ("bad_words", ["a" * 10**6]),
        ("logits_processors", ["no_repeat_ngram"]),
        ("logits_processors", {5: 1}),
        ("logits_processors", {"mine": NAN}),
        ("logits_processors", {"mine": {"deep": object()}}),
    ],
)
def test_an_impossible_value_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        SamplingParams(**{field: value})
    assert caught.value.param == field


@pytest.mark.parametrize(
    "given",
    [
        {"top_k": 0},
        {"top_k": -1},
        {"stop": []},
        {"stop": ["a"] * 5},
        {"seed": 0},
        {"seed": -(2**63)},
        {"max_tokens": None},
        {"max_tokens": 0},
        {"temperature": 5e-324},
        {"logprobs": 0, "prompt_logprobs": 0},
        {"logprobs": 50, "prompt_logprobs": 50},
        {"allowed_token_ids": [3]},
        {"bad_words": ["one", " two words"]},
        {"logits_processors": {"mine": {"strength": 2.0, "words": ["a"]}, "other": None}},
    ],
)
def test_a_possible_value_is_taken_and_survives_a_message(given: dict[str, Any]) -> None:
    params = SamplingParams(**given)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(params), type=SamplingParams) == params


def test_one_stop_string_may_be_given_as_it_is() -> None:
    assert SamplingParams(stop="end") == SamplingParams(stop=["end"])


def test_stop_strings_need_text() -> None:
    with pytest.raises(InvalidRequestError, match="detokenize"):
        SamplingParams(stop=["a"], detokenize=False)


def test_min_tokens_over_max_tokens_is_refused_and_a_filled_context_has_no_limit() -> None:
    with pytest.raises(InvalidRequestError, match="max_tokens, which is 3"):
        SamplingParams(max_tokens=3, min_tokens=4)
    assert SamplingParams(max_tokens=None, min_tokens=400).min_tokens == 400


@pytest.mark.parametrize(
    "given",
    [
        {"logit_bias": {191222: -100}},
        {"stop_token_ids": [10**6], "min_tokens": 2},
        {"stop_token_ids": [-1]},
        {"allowed_token_ids": [10**6]},
    ],
)
def test_ids_that_the_model_does_not_have_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match=r"\[0, 1000\)"):
        check_against_vocabulary(SamplingParams(**given), 1000)
