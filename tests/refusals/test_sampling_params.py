"""Every field of `SamplingParams` out of its range is refused by name; what is merely extreme is served."""

import math
from typing import Any

import pytest

from octavo import LLM, SamplingParams
from octavo.errors import InvalidRequestError, RequestFailedError
from tests.refusals.engine import GREEDY, PROMPT

NAN, INFINITY = math.nan, math.inf


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("temperature", value) for value in (-1, -1e-9, NAN, INFINITY, 1e400, 10**400, 101, "x", None, True)),
        *(("top_p", value) for value in (0, 1.1, -1, NAN, "1", None)),
        *(("top_k", value) for value in (-2, 1.5, 2**63, "5", True)),
        *(("min_p", value) for value in (2, -0.1, NAN)),
        *(("repetition_penalty", value) for value in (0, -1, 1e-300, 101, INFINITY, NAN)),
        *((name, value) for name in ("presence_penalty", "frequency_penalty") for value in (3, -2.1, NAN, 10**400)),
        *(("n", value) for value in (0, -1, 129, 10**6, 1.0, True)),
        *(("seed", value) for value in (2**70, 2**63, -(2**63) - 1, 1.5, "7", True)),
        *(("max_tokens", value) for value in (-1, 2**63, 1.5, "5")),
        *(("min_tokens", value) for value in (-1, 17, 2**70, None)),
        *(("stop", value) for value in ("", 5, ["a", ""], [5], None, ["a"] * 65, ["a"] * 10**5)),
        *(("stop_token_ids", value) for value in (5, ["5"], [True], [5.0], None)),
        *(("logit_bias", value) for value in ([5], {"5": 1.0}, {-1: 1.0}, {True: 1.0}, {5: 101}, {5: NAN}, {5: "x"}, {5: 10**400})),
        ("logit_bias", dict.fromkeys(range(1025), 1.0)),
        *(("ignore_eos", value) for value in (1, "yes", None)),
        ("detokenize", 0),
        ("skip_special_tokens", "no"),
        ("include_stop_str_in_output", None),
    ],
)
def test_a_field_out_of_its_range_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        SamplingParams(**{field: value})
    assert caught.value.param == field
    assert str(caught.value).startswith(f"{field} ")
    assert len(str(caught.value)) < 500


def test_stop_strings_without_text_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="set detokenize=True or use stop_token_ids"):
        SamplingParams(stop=["x"], detokenize=False)


@pytest.mark.parametrize("ids", [{"stop_token_ids": [512], "min_tokens": 2}, {"stop_token_ids": [-1]}, {"logit_bias": {191222: -100}}])
def test_ids_that_the_model_does_not_have_are_refused(survivor: LLM, ids: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match=r"token ids of this model are in \[0, 512\)"):
        survivor.generate([PROMPT], SamplingParams(**ids), use_tqdm=False)


def lengths(llm: LLM, prompt: list[int] = PROMPT, **params: Any) -> list[int]:
    (output,) = llm.generate([prompt], SamplingParams(**{"ignore_eos": True, "max_tokens": 8} | params), use_tqdm=False)
    return [len(choice.token_ids) for choice in output.outputs]


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 5e-324},
        {"temperature": 100.0, "presence_penalty": -2, "frequency_penalty": -2},
        {"top_p": 5e-324},
        {"top_k": 2**63 - 1},
        {"top_k": -1},
        {"min_p": 1.0},
        {"repetition_penalty": 0.01, "temperature": 0},
        {"repetition_penalty": 100.0},
        {"seed": 2**63 - 1},
        {"seed": -(2**63)},
        {"logit_bias": dict.fromkeys(range(512), 100.0)},
        {"logit_bias": dict.fromkeys(range(512), -100.0), "temperature": 0},
        {"stop": ["x" * 1000] * 64},
        {"stop": ["\ud800"]},
    ],
)
def test_what_is_extreme_is_served(survivor: LLM, params: dict[str, Any]) -> None:
    assert lengths(survivor, **params) == [8]


def test_a_request_that_leaves_no_token_to_draw_fails_alone(survivor: LLM) -> None:
    params = SamplingParams(stop_token_ids=list(range(512)), min_tokens=8)
    with pytest.raises(RequestFailedError, match="1 of 2 prompts failed, the first is prompt 0: no token is left to draw") as caught:
        survivor.generate([PROMPT, PROMPT], [params, GREEDY], use_tqdm=False)
    assert len(caught.value.outputs[1].outputs[0].token_ids) == 6


def test_as_many_choices_as_may_be_share_a_small_pool(survivor: LLM) -> None:
    assert lengths(survivor, [5] * 40, n=128, seed=2**63 - 1, max_tokens=20) == [20] * 128


def test_choices_of_a_prompt_that_leaves_no_room_have_one_token_each(survivor: LLM) -> None:
    assert lengths(survivor, [5] * 127, n=5, max_tokens=500) == [1] * 5


@pytest.mark.parametrize("priority", ["high", 1.5, None, [1, 2, 3]])
def test_a_priority_is_an_integer_or_one_for_each(survivor: LLM, priority: Any) -> None:
    with pytest.raises(InvalidRequestError, match="priority"):
        survivor.generate([PROMPT, PROMPT], GREEDY, use_tqdm=False, priority=priority)
