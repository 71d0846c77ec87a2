"""Prompts that cannot be: refused before anything is queued, and the same engine answers the next one."""

from typing import Any

import pytest

from octavo import LLM, SamplingParams
from octavo.errors import InvalidRequestError
from tests.refusals.engine import GREEDY

LIMIT = 128


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("", "the prompt has no tokens"),
        ([], "there is no prompt"),
        ([""], "prompt 0: the prompt has no tokens"),
        ([[]], "prompt 0: the prompt has no tokens"),
        ([[5], []], "prompt 1: the prompt has no tokens"),
        ({"prompt": ""}, "the prompt has no tokens"),
        ({"prompt_token_ids": []}, "the prompt has no tokens"),
        ([512], r"token id 512 .* \[0, 512\)"),
        ([-1], "token id -1"),
        ([5, 10**9], "token id 1000000000"),
        ([5279552648203111001], "token id 5279552648203111001"),
        ([5, 10**400], r"token id 1000.* \(401 characters\)"),
        ([5, 10**5000], "token id <int too large to show>"),
        ([1, "a"], "token id 'a'"),
        ([1, "a" * 10**6], r"token id 'aaa.* \(1,000,002 characters\)"),
        ([True], "token id True"),
        ([5, False], "token id False"),
        ([5, 6.0], "token id 6.0"),
        ([5, None], "token id None"),
        ([[[5]]], r"prompt 0: token id \[5\]"),
        (["a", 5], "prompt 1: a prompt is text"),
        (5, "a prompt is text"),
        (None, "a prompt is text"),
        (b"bytes", "a prompt is text"),
        ({5}, "a prompt is text"),
        ({"text": "a"}, "not a mapping with the keys 'text'"),
        ({"prompt_token_ids": "ab"}, "token ids are a list"),
        ("\ud800", "half of a surrogate pair"),
        ("a\udfffb", "half of a surrogate pair"),
        ([{"role": "user", "content": "\ud800"}], "half of a surrogate pair"),
        ([{"role": "user", "content": 5}], r"messages\[0\]\.content must be"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}], "image_url"),
    ],
)
def test_an_impossible_prompt_is_refused(survivor: LLM, prompt: Any, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said) as caught:
        survivor.generate(prompt, GREEDY, use_tqdm=False)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("prompt", [[5] * LIMIT, [5] * (LIMIT + 1), "x" * 100_000, [{"role": "user", "content": "x" * 100_000}]])
def test_a_prompt_over_the_limit_names_both_numbers(survivor: LLM, prompt: Any) -> None:
    with pytest.raises(InvalidRequestError, match=rf"the prompt .*has (more than )?[\d,]+ tokens.*the context is {LIMIT} tokens") as caught:
        survivor.generate(prompt, GREEDY, use_tqdm=False)
    assert (caught.value.param, caught.value.code) == ("prompt", "context_length_exceeded")


def test_the_longest_prompt_gets_one_token_and_with_none_asked_for_it_may_fill_the_context(survivor: LLM) -> None:
    (output,) = survivor.generate([[5] * (LIMIT - 1)], GREEDY, use_tqdm=False)
    assert (len(output.outputs[0].token_ids), output.outputs[0].finish_reason) == (1, "length")
    (output,) = survivor.generate([[5] * LIMIT], SamplingParams(max_tokens=0), use_tqdm=False)
    assert (output.outputs[0].token_ids, output.outputs[0].finish_reason) == ([], "length")


def test_one_impossible_prompt_of_many_keeps_the_others_out(survivor: LLM) -> None:
    steps = survivor.stats().counters.steps
    with pytest.raises(InvalidRequestError, match="prompt 2: token id 512"):
        survivor.generate([[5], "hello", [512]], GREEDY, use_tqdm=False)
    assert survivor.stats().counters.steps == steps


@pytest.mark.parametrize(
    "text",
    ["\0", "\u202e\u0301" * 20, "🏳️‍🌈" * 3, "\ufeff\uffff", "<|endoftext|><|im_end|>", "\r\n\t\v\f", "e" + "\u0301" * 30, "{{ 7 }} {% x %}"],
)
def test_odd_text_is_text(survivor: LLM, text: str) -> None:
    (raw,) = survivor.generate(text, GREEDY, use_tqdm=False)
    (chatted,) = survivor.chat([{"role": "user", "content": text}], GREEDY, use_tqdm=False)
    assert text in chatted.prompt
    assert len(raw.outputs[0].token_ids) == len(chatted.outputs[0].token_ids) == 6
