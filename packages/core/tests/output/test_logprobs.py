"""Log-probabilities from the engine to the user, on the fake model: token t has the value -t / 1000 and the rank t + 1."""

import itertools
from typing import Any

import pytest

from octavo import SamplingParams
from octavo.errors import InvalidRequestError
from octavo.outputs import Logprob
from octavo.testing.llm import FakeLLM, fake_llm
from octavo.testing.model import scripted
from octavo.types import FinishReason

WORDS = ["ABC", "DEF", "G", "HI", "J", "zz"]
SCRIPT = [3, 4, 5, 6, 7, 8]


def params(**more: Any) -> SamplingParams:
    return SamplingParams(**{"temperature": 0, "max_tokens": 6, "ignore_eos": True, **more})


def entry(token_id: int, text: str) -> Logprob:
    return Logprob(pytest.approx(-token_id / 1000), token_id + 1, text)


def scripted_llm(**more: Any) -> FakeLLM:
    return fake_llm(words=WORDS, draw=scripted({"0": SCRIPT}), **more)


def test_none_are_given_where_none_are_asked_for() -> None:
    (output,) = scripted_llm().generate([9], params())
    assert (output.prompt_logprobs, output.outputs[0].logprobs, output.outputs[0].cumulative_logprob) == (None, None, None)


def test_zero_gives_each_token_alone() -> None:
    completion = scripted_llm().complete([9], params(logprobs=0, max_tokens=3))
    assert completion.logprobs == [{3: entry(3, "ABC")}, {4: entry(4, "DEF")}, {5: entry(5, "G")}]
    assert completion.cumulative_logprob == pytest.approx(-0.012)


def test_more_gives_the_likeliest_with_ranks_and_texts() -> None:
    completion = scripted_llm().complete([9], params(logprobs=2, max_tokens=1))
    assert completion.logprobs == [{3: entry(3, "ABC"), 0: entry(0, "<unk>"), 1: entry(1, "<s>")}]
    assert list(completion.logprobs[0]) == [3, 0, 1]


def test_a_token_that_is_among_the_likeliest_stands_once() -> None:
    completion = scripted_llm().complete([9], params(logprobs=5, max_tokens=1))
    assert completion.logprobs is not None
    assert list(completion.logprobs[0]) == [3, 0, 1, 2, 4]


@pytest.mark.parametrize("max_in_flight", [1, 2])
def test_they_end_at_the_token_that_completed_a_stop_string(max_in_flight: int) -> None:
    completion = scripted_llm(max_in_flight=max_in_flight).complete([9], params(logprobs=0, stop=["FGH"]))
    assert completion.token_ids == [3, 4, 5, 6]
    assert completion.logprobs is not None
    assert [list(position) for position in completion.logprobs] == [[3], [4], [5], [6]]
    assert completion.cumulative_logprob == pytest.approx(-0.018)


def test_they_grow_in_a_stream_and_earlier_outputs_keep_theirs() -> None:
    outputs = [output.outputs[0] for output in scripted_llm().llm.stream([9], params(logprobs=0))]
    assert [len(output.logprobs or ()) for output in outputs] == [1, 2, 3, 4, 5, 6]
    assert all(later.cumulative_logprob < earlier.cumulative_logprob for earlier, later in itertools.pairwise(outputs))  # type: ignore[operator]


def test_a_part_of_a_character_is_a_replacement_character() -> None:
    fake = fake_llm(words=["<0xF0>", "<0x9F>"], draw=scripted({"0": [3, 4]}))
    completion = fake.complete([9], params(logprobs=0, max_tokens=2))
    assert completion.logprobs == [{3: entry(3, "�")}, {4: entry(4, "�")}]


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 33, 70])
@pytest.mark.parametrize("max_tokens", [0, 1, 3])
@pytest.mark.parametrize("max_in_flight", [1, 2])
def test_every_token_of_the_prompt_but_the_first_has_one(length: int, max_tokens: int, max_in_flight: int) -> None:
    fake = fake_llm(max_in_flight=max_in_flight)
    prompt = list(range(10, 10 + length))
    (output,) = fake.generate(prompt, params(prompt_logprobs=1, max_tokens=max_tokens))
    assert output.prompt_logprobs is not None
    assert output.prompt_logprobs[0] is None
    assert output.prompt_logprobs[1:] == [{token: entry(token, f"x{token}"), 0: entry(0, "<unk>")} for token in prompt[1:]]
    assert len(output.outputs[0].token_ids) == max_tokens
    assert output.outputs[0].finish_reason is FinishReason.LENGTH


def test_a_prompt_is_read_in_full_for_them_and_others_use_what_it_leaves_in_the_cache() -> None:
    fake = fake_llm()
    prompt = list(range(10, 60))
    assert [fake.generate(prompt, params(prompt_logprobs=0))[0].num_cached_tokens for _ in range(2)] == [0, 0]
    assert fake.generate(prompt, params())[0].num_cached_tokens == 48
    assert len(fake.generate(prompt, params(prompt_logprobs=0))[0].prompt_logprobs or ()) == 50


def test_of_several_choices_only_the_first_reads_the_prompt_for_them() -> None:
    fake = fake_llm()
    prompt = list(range(10, 58))
    (output,) = fake.generate([prompt], params(prompt_logprobs=0, logprobs=0, n=3))
    assert len(output.prompt_logprobs or ()) == 48
    assert [len(choice.logprobs or ()) for choice in output.outputs] == [6, 6, 6]
    assert fake.llm.stats().counters.prompt_tokens_computed == 48 + 2 * 16


def test_they_are_the_same_when_requests_give_way_to_each_other() -> None:
    fake = fake_llm(num_blocks=8)
    prompts = [list(range(start, start + 40)) for start in (100, 200, 300, 400)]
    outputs = fake.generate(prompts, params(prompt_logprobs=1, logprobs=1, max_tokens=30))
    assert fake.llm.stats().counters.preemptions > 0
    for prompt, output in zip(prompts, outputs, strict=True):
        assert [list(position or ()) for position in output.prompt_logprobs or ()] == [[], *([token, 0] for token in prompt[1:])]
        assert [next(iter(position)) for position in output.outputs[0].logprobs or ()] == output.outputs[0].token_ids


def test_score_gives_a_number_a_token() -> None:
    fake = fake_llm(words=["hello", "there"])
    scores = fake.llm.score([[5, 6, 7], "hello there", [9]], use_tqdm=False)
    assert scores == [[None, pytest.approx(-0.006), pytest.approx(-0.007)], [None, pytest.approx(-0.004)], [None]]
    assert fake.llm.score([5, 6], use_tqdm=False) == [[None, pytest.approx(-0.006)]]
    fake.assert_idle()
    assert fake.llm.stats().counters.generated_tokens == 0


def test_the_longest_possible_prompt_is_scored_and_a_longer_one_refused() -> None:
    fake = fake_llm()
    assert len(fake.llm.score([[5] * 128], use_tqdm=False)[0]) == 128
    with pytest.raises(InvalidRequestError, match="prompt 1: the prompt has 129 tokens"):
        fake.llm.score([[5], [5] * 129], use_tqdm=False)
    fake.assert_idle()


@pytest.mark.parametrize("field", ["logprobs", "prompt_logprobs"])
def test_more_than_the_engine_gives_are_refused(field: str) -> None:
    fake = fake_llm()
    with pytest.raises(InvalidRequestError, match="at most 20"):
        fake.generate([[5]], params(**{field: 21}))
    fake.assert_idle()
