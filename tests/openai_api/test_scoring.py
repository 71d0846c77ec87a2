"""The calls by which evaluation harnesses score texts, against a plain forward."""

import math
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from openai import OpenAI

CONTEXT = "the tea on that tree is not the one"
GREEDY: dict[str, Any] = {"model": "tiny", "temperature": 0}


def expected_values(served: Any, token_ids: list[int]) -> list[float]:
    """Log-probability of every token but the first."""
    rows = served.logprobs(token_ids)
    return [rows[place][token_id] for place, token_id in enumerate(token_ids[1:])]


@pytest.mark.parametrize("max_tokens", [0, 1])
@pytest.mark.parametrize("as_ids", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_echoed_logprobs_are_those_of_the_model(client: "OpenAI", served: Any, max_tokens: int, as_ids: bool, stream: bool) -> None:
    first = client.completions.create(prompt=CONTEXT, max_tokens=1, extra_body={"return_token_ids": True}, **GREEDY)
    prompt_ids = first.choices[0].prompt_token_ids
    prompt: Any = prompt_ids if as_ids else CONTEXT
    asked = client.completions.create(
        prompt=prompt, max_tokens=max_tokens, echo=True, logprobs=2, stream=stream, extra_body={"return_token_ids": True}, **GREEDY
    )
    choices = [part.choices[0] for part in asked] if stream else [asked.choices[0]]
    text = "".join(choice.text for choice in choices)
    tokens, values, tops, offsets = (
        [item for choice in choices for item in getattr(choice.logprobs, name)]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    )
    output_ids = [token_id for choice in choices for token_id in choice.token_ids]
    assert text.startswith(CONTEXT)
    assert len(tokens) == len(prompt_ids) + max_tokens == len(values) == len(tops) == len(offsets)
    assert values[0] is None
    assert values[1:] == pytest.approx(expected_values(served, prompt_ids + output_ids), abs=1e-3)
    ends = [*offsets[1:], len(text)][: len(prompt_ids)]
    assert [text[begin:end] for begin, end in zip(offsets, ends, strict=False)] == tokens[: len(prompt_ids)]
    assert offsets[len(prompt_ids) :] == [len(CONTEXT)] * max_tokens
    rows = served.logprobs(prompt_ids + output_ids)
    for top, row in zip(tops[1:], rows, strict=False):
        assert max(top.values()) == pytest.approx(max(row), abs=1e-3)
        assert 2 <= len(top) <= 3


def test_the_likelihood_of_a_continuation(client: "OpenAI", served: Any) -> None:
    """As lm-eval computes it: the tokens behind the context, and whether each of them is the likeliest."""
    continuation = " is red"
    asked = client.completions.create(prompt=CONTEXT + continuation, max_tokens=1, echo=True, logprobs=1, **GREEDY)
    tokenized = client.completions.create(
        prompt=[CONTEXT, CONTEXT + continuation], max_tokens=1, extra_body={"return_token_ids": True}, **GREEDY
    )
    context_ids, all_ids = (choice.prompt_token_ids for choice in tokenized.choices)
    assert all_ids[: len(context_ids)] == context_ids
    logprobs = asked.choices[0].logprobs
    scored = logprobs.token_logprobs[len(context_ids) : -1]
    assert len(scored) == len(all_ids) - len(context_ids) > 0
    assert sum(scored) == pytest.approx(sum(expected_values(served, all_ids)[len(context_ids) - 1 :]), abs=1e-3)
    assert all(math.isfinite(value) and value <= 0 for value in scored)


def test_a_batch_of_scorings(client: "OpenAI", served: Any) -> None:
    prompts = [[20 + number, 40, 60 + number, 80] for number in range(6)]
    asked = client.completions.create(prompt=prompts, max_tokens=0, echo=True, logprobs=1, **GREEDY)
    assert [choice.index for choice in asked.choices] == list(range(6))
    for prompt, choice in zip(prompts, asked.choices, strict=True):
        assert choice.logprobs.token_logprobs[1:] == pytest.approx(expected_values(served, prompt), abs=1e-3)
    assert (asked.usage.prompt_tokens, asked.usage.completion_tokens) == (24, 0)
