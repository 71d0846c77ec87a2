import itertools
from typing import Any

import pytest

from octavo import SamplingParams
from octavo.testing.llm import GREEDY, fake_llm
from octavo.testing.model import scripted
from octavo.types import FinishReason

WORDS = ["ABC", "DEF", "G", "HI", "J", "zz"]
SCRIPT = [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("max_in_flight", [1, 2])
@pytest.mark.parametrize(
    ("params", "text", "num_tokens", "stop"),
    [
        ({"stop": ["DEFGHIJ"]}, "ABC", 5, "DEFGHIJ"),
        ({"stop": ["DEFGHIJ"], "include_stop_str_in_output": True}, "ABCDEFGHIJ", 5, "DEFGHIJ"),
        ({"stop": ["BCD"]}, "A", 2, "BCD"),
        ({"stop": ["HI", "EF"]}, "ABCD", 2, "EF"),
        ({"stop": ["ABC"], "min_tokens": 3}, "ABCDEFGHIJzz", 6, None),
        ({"stop": ["never"]}, "ABCDEFGHIJzz", 6, None),
        ({"stop": ["zzz"]}, "ABCDEFGHIJzz", 6, None),
    ],
)
def test_a_stop_string_over_tokens_ends_text_and_tokens(
    params: dict[str, Any], text: str, num_tokens: int, stop: str | None, max_in_flight: int
) -> None:
    fake = fake_llm(words=WORDS, draw=scripted({"0": SCRIPT}), max_in_flight=max_in_flight)
    (output,) = fake.generate([[9]], SamplingParams(temperature=0, max_tokens=6, **params))
    (completion,) = output.outputs
    assert (completion.text, completion.token_ids, completion.stop_reason) == (text, SCRIPT[:num_tokens], stop)
    assert completion.finish_reason == ("stop" if stop else "length")
    assert output.metrics is not None
    assert output.metrics.finished > 0


def test_a_stop_string_that_the_last_allowed_token_completes_counts_as_stop() -> None:
    fake = fake_llm(words=WORDS, draw=scripted({"0": SCRIPT}))
    completion = fake.complete([9], SamplingParams(temperature=0, max_tokens=2, stop=["DEF"]))
    assert (completion.text, completion.finish_reason, completion.stop_reason) == ("ABC", "stop", "DEF")


def test_tokens_beyond_a_stop_string_are_counted_as_overrun_and_the_end_as_stop() -> None:
    fake = fake_llm(words=WORDS, draw=scripted({"0": SCRIPT}))
    fake.generate([[9]], SamplingParams(temperature=0, max_tokens=50, stop=["DEF"]))
    assert fake.llm.stats().counters.finished[FinishReason.STOP] == 1


def test_streamed_text_grows_and_ends_like_generated_text() -> None:
    params = SamplingParams(temperature=0, max_tokens=6, stop=["DEFGHIJ"])
    fake = fake_llm(words=WORDS, draw=scripted({"0": SCRIPT}))
    texts = [output.outputs[0].text for output in fake.llm.stream([9], params)]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    assert set(texts) == {"ABC"}
    fake.assert_idle()


def test_end_of_sequence_is_a_token_of_the_output_and_no_text() -> None:
    fake = fake_llm(words=WORDS, draw=scripted({"0": [3, 2]}))
    completion = fake.complete([9], SamplingParams(temperature=0, skip_special_tokens=False))
    assert (completion.text, completion.token_ids, completion.finish_reason, completion.stop_reason) == ("ABC", [3, 2], "stop", None)


def test_a_stop_token_is_named_and_its_text_left_out_unless_asked_for() -> None:
    for include, text in ((False, "ABC"), (True, "ABCDEF")):
        fake = fake_llm(words=WORDS, draw=scripted({"0": [3, 4, 5]}))
        completion = fake.complete([9], SamplingParams(temperature=0, stop_token_ids=[4], include_stop_str_in_output=include))
        assert (completion.text, completion.token_ids, completion.stop_reason) == (text, [3, 4], 4)


def test_a_character_over_several_tokens_is_never_torn() -> None:
    words = ["<0xF0>", "<0x9F>", "<0xA6>", "<0x91>", "!"]
    fake = fake_llm(words=words, draw=scripted({"0": [3, 4, 5, 6, 7]}))
    texts = [output.outputs[0].text for output in fake.llm.stream([9], GREEDY)]
    assert texts == ["", "", "", "🦑", "🦑!"]


def byte_words(text: str) -> list[str]:
    return [f"<0x{byte:02X}>" for byte in text.encode()]


@pytest.mark.parametrize("text", ["🦑", "ภาษาไทย", "漢字", "příliš žluťoučký"])
def test_no_part_of_a_character_is_streamed_and_a_cut_one_ends_alike_streamed_or_not(text: str) -> None:
    words = list(dict.fromkeys(byte_words(text)))
    script = [3 + words.index(word) for word in byte_words(text)]
    for length in range(1, len(script) + 1):
        params = SamplingParams(temperature=0, max_tokens=length, ignore_eos=True)
        fake = fake_llm(words=words, draw=scripted({"0": script, "1": script}))
        *growing, last = [output.outputs[0].text for output in fake.llm.stream([999], params)]
        assert not any("\ufffd" in part for part in growing)
        assert all(last.startswith(part) for part in growing)
        assert last == fake.complete([999], params).text == text.encode()[:length].decode(errors="replace")


def test_without_detokenizing_there_is_no_text() -> None:
    completion = fake_llm().complete([9], SamplingParams(temperature=0, max_tokens=3, detokenize=False, ignore_eos=True))
    assert (completion.text, len(completion.token_ids)) == ("", 3)


def test_no_tokens_may_be_asked_for() -> None:
    completion = fake_llm().complete([9], SamplingParams(max_tokens=0))
    assert (completion.text, completion.token_ids, completion.finish_reason) == ("", [], "length")


def test_cached_prompt_tokens_are_reported_and_forgotten_on_request() -> None:
    fake = fake_llm()
    prompt = list(range(10, 50))
    assert [fake.generate(prompt)[0].num_cached_tokens for _ in range(2)] == [0, 32]
    assert fake.llm.reset_prefix_cache()
    assert fake.generate(prompt)[0].num_cached_tokens == 0


def sampled(**more: Any) -> SamplingParams:
    return SamplingParams(temperature=1, max_tokens=8, ignore_eos=True, **more)


def test_choices_differ_are_repeatable_and_the_first_equals_a_single_one() -> None:
    fake = fake_llm()
    first, again = (fake.generate([[5, 6]], sampled(n=4, seed=7))[0] for _ in range(2))
    assert [choice.index for choice in first.outputs] == [0, 1, 2, 3]
    assert len({tuple(choice.token_ids) for choice in first.outputs}) == 4
    assert [choice.token_ids for choice in first.outputs] == [choice.token_ids for choice in again.outputs]
    assert first.outputs[0].token_ids == fake.complete([5, 6], sampled(seed=7)).token_ids


def test_choices_end_on_their_own() -> None:
    fake = fake_llm(words=WORDS, draw=scripted({"0": [3, 4, 5], "0.1": [5, 4, 3]}))
    (output,) = fake.generate([[9]], SamplingParams(temperature=0, n=2, max_tokens=3, stop=["ABC"]))
    assert [(choice.text, choice.finish_reason) for choice in output.outputs] == [("", "stop"), ("GDEF", "stop")]
    assert output.finished


def test_without_a_seed_calls_differ_and_with_the_engines_seed_starts_are_equal() -> None:
    fake = fake_llm()
    assert fake.complete([5], sampled()).token_ids != fake.complete([5], sampled()).token_ids
    runs = []
    for _ in range(2):
        fake = fake_llm(seed=3)
        runs.append([fake.complete([5], sampled()).token_ids for _ in range(2)])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


def test_seed_zero_is_a_seed() -> None:
    assert fake_llm().complete([5], sampled(seed=0)).token_ids == fake_llm().complete([5], sampled(seed=0)).token_ids
