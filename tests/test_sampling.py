"""Sampling from parameters to text on a tiny random model: every row beside others, and the engine whole afterwards."""

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo import LLM, SamplingParams
from octavo.errors import InvalidRequestError, RequestFailedError
from octavo.outputs import RequestOutput
from octavo_models.testing import write_tiny_llama
from octavo_models.testing.dense import dense_logits, load_tiny_model

VOCAB = 512
EOS, ALSO_EOS = 2, 7
PROMPT = [11, 45, 200, 33, 78]
LONG = [20 + 7 * index % 400 for index in range(75)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny", vocab_size=VOCAB, seed=5)
    (made / "generation_config.json").write_text(json.dumps({"eos_token_id": [EOS, ALSO_EOS]}))
    return made


def small_llm(folder: Path, **flags: Any) -> LLM:
    sizes = {"max_model_len": 128, "block_size": 16, "num_blocks": 12, "max_num_seqs": 4, "max_num_batched_tokens": 32, "seed": 1}
    return LLM(str(folder), **{**sizes, **flags})


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[LLM]:
    with small_llm(folder) as llm:
        yield llm


@pytest.fixture
def llm(engine: LLM) -> Iterator[LLM]:
    """The engine, which each test leaves idle and able to answer."""
    yield engine
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)
    assert len(tokens(engine, PROMPT)) == 8


def params(**more: Any) -> SamplingParams:
    return SamplingParams(**{"temperature": 0, "max_tokens": 8, "ignore_eos": True, **more})


def generate(llm: LLM, prompt: list[int], **more: Any) -> RequestOutput:
    """One prompt beside two others that draw from all tokens."""
    others = params(temperature=1.0, seed=3)
    outputs = llm.generate([[5, 6, 7], prompt, [8, 9]], [others, params(**more), others], use_tqdm=False)
    return outputs[1]


def tokens(llm: LLM, prompt: list[int], **more: Any) -> list[int]:
    return generate(llm, prompt, **more).outputs[0].token_ids


def test_nothing_ends_the_output_before_min_tokens(llm: LLM) -> None:
    bias = {EOS: 100.0, ALSO_EOS: 100.0, 9: 100.0}
    output = generate(llm, PROMPT, ignore_eos=False, min_tokens=5, stop_token_ids=[9], logit_bias=bias).outputs[0]
    assert not {EOS, ALSO_EOS, 9} & set(output.token_ids[:5])
    assert (len(output.token_ids), output.finish_reason) == (6, "stop")
    assert output.token_ids[5] in {EOS, ALSO_EOS, 9}


def test_every_end_of_sequence_of_the_generation_config_ends_the_output(llm: LLM) -> None:
    for token in (EOS, ALSO_EOS):
        output = generate(llm, PROMPT, ignore_eos=False, logit_bias={token: 100.0}).outputs[0]
        assert (output.token_ids, output.finish_reason, output.stop_reason) == ([token], "stop", None)


def test_several_stop_token_ids_end_it_and_are_named(llm: LLM) -> None:
    plain = tokens(llm, PROMPT)
    output = generate(llm, PROMPT, stop_token_ids=[plain[5], plain[3], 500]).outputs[0]
    end = min(plain.index(plain[5]), plain.index(plain[3]))
    assert (output.token_ids, output.finish_reason, output.stop_reason) == (plain[: end + 1], "stop", plain[end])


def test_stop_strings_count_from_min_tokens_on(llm: LLM) -> None:
    plain = generate(llm, PROMPT).outputs[0]
    first = plain.text[:2]
    assert generate(llm, PROMPT, stop=[first]).outputs[0].text == ""
    late = generate(llm, PROMPT, stop=[first], min_tokens=8).outputs[0]
    assert (late.token_ids, late.text.startswith(first)) == (plain.token_ids, True)


def test_a_bias_forces_and_bans(llm: LLM) -> None:
    assert tokens(llm, PROMPT, logit_bias={5: 100}) == [5] * 8
    greedy = tokens(llm, PROMPT)[0]
    assert greedy not in tokens(llm, PROMPT, logit_bias={greedy: -100})


@pytest.mark.parametrize(
    "more",
    [
        {"logit_bias": {191222: -100}},
        {"stop_token_ids": [10**6], "min_tokens": 2},
        {"allowed_token_ids": [10**6]},
        {"logprobs": 21},
        {"prompt_logprobs": 10**6},
        {"logits_processors": {"unheard_of": 1}},
    ],
)
def test_what_the_model_or_the_engine_does_not_have_is_refused(llm: LLM, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        llm.generate([PROMPT, PROMPT], [params(), params(**more)], use_tqdm=False)
    assert caught.value.param == next(iter(more))


def test_only_allowed_tokens_come(llm: LLM) -> None:
    for more in ({}, {"temperature": 1.5, "seed": 2}):
        assert set(tokens(llm, PROMPT, allowed_token_ids=[40, 41, 42], **more)) <= {40, 41, 42}
    assert tokens(llm, PROMPT, allowed_token_ids=list(range(VOCAB))) == tokens(llm, PROMPT)


def test_bad_words_do_not_come(llm: LLM) -> None:
    tokenizer = llm.engine.tokenizer
    letters = [
        token for token in range(3, VOCAB) if tokenizer.token_bytes(token).strip().isalpha() and tokenizer.token_bytes(token).isascii()
    ]
    settings = {"max_tokens": 30, "allowed_token_ids": letters, "temperature": 1.0, "seed": 6}
    plain = generate(llm, PROMPT, **settings).outputs[0].token_ids
    runs = [plain[start : start + length] for length in (1, 2, 3) for start in range(len(plain) - length)]
    words = {
        text: ids
        for ids in runs
        if tokenizer.encode(text := tokenizer.decode(ids, skip_special_tokens=True), add_special_tokens=False) == ids
    }
    by_length = [[text for text, ids in words.items() if len(ids) == length][:4] for length in (1, 2, 3)]
    assert all(by_length)
    for bad_words in by_length:
        censored = tokens(llm, PROMPT, bad_words=bad_words, **settings)
        for text in bad_words:
            for ids in (words[text], tokenizer.encode(" " + text.strip(), add_special_tokens=False)):
                assert ids not in [censored[start : start + len(ids)] for start in range(len(censored))]


@pytest.mark.parametrize("temperature", [1e-3, 1e-4, 1e-5, 1e-6, 1e-12, 5e-324, 0])
def test_tiny_temperatures_give_the_greedy_text_and_leave_neighbours_alone(llm: LLM, temperature: float) -> None:
    warm = params(temperature=1.0, seed=9)
    expected = [output.outputs[0].text for output in llm.generate([PROMPT, LONG[:20]], [params(), warm], use_tqdm=False)]
    outputs = llm.generate([PROMPT, LONG[:20]], [params(temperature=temperature), warm], use_tqdm=False)
    assert [output.outputs[0].text for output in outputs] == expected


def test_choices_differ_and_repeat_alone_and_in_traffic(llm: LLM) -> None:
    four = params(n=4, seed=7, temperature=1.0)
    (alone,) = llm.generate([PROMPT], four, use_tqdm=False)
    texts = [choice.token_ids for choice in alone.outputs]
    assert len({tuple(ids) for ids in texts}) == 4
    traffic = llm.generate([LONG[:30], PROMPT, LONG[10:50]], [params(max_tokens=30), four, params(temperature=1.0)], use_tqdm=False)
    assert [choice.token_ids for choice in traffic[1].outputs] == texts
    assert tokens(llm, PROMPT, seed=7, temperature=1.0) == texts[0]
    assert tokens(llm, PROMPT, seed=0, temperature=1.0) == tokens(llm, PROMPT, seed=0, temperature=1.0)
    assert tokens(llm, PROMPT, temperature=1.0) != tokens(llm, PROMPT, temperature=1.0)


def test_a_processor_of_one_request_leaves_the_others_alone(llm: LLM) -> None:
    prompts = [PROMPT, LONG[:40], [3, 4]]
    quiet = [output.outputs[0].token_ids for output in llm.generate(prompts, params(max_tokens=40), use_tqdm=False)]
    asked = [params(max_tokens=40), params(max_tokens=40, logits_processors={"no_repeat_ngram": 1}), params(max_tokens=40)]
    outputs = [output.outputs[0].token_ids for output in llm.generate(prompts, asked, use_tqdm=False)]
    assert (outputs[0], outputs[2]) == (quiet[0], quiet[2])
    assert len({*LONG[:40], *outputs[1]}) == len(set(LONG[:40])) + 40


def test_a_processor_that_raises_ends_its_request_alone_and_the_prefix_stays_cached(llm: LLM) -> None:
    llm.reset_prefix_cache()
    with pytest.raises(RequestFailedError, match="prompt 1: logits processor 'no_repeat_ngram' raised ValueError") as caught:
        llm.generate([PROMPT, LONG], [params(), params(logits_processors={"no_repeat_ngram": -1})], use_tqdm=False)
    assert caught.value.outputs[0].outputs[0].token_ids == tokens(llm, PROMPT)
    assert generate(llm, LONG).num_cached_tokens == 64


@pytest.fixture(scope="module")
def plain(folder: Path) -> Any:
    """From a sequence to the log-softmax [N, V] of one forward over the whole of it, without cache or pages."""
    model = load_tiny_model(folder)

    def forward(ids: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            return dense_logits(model, torch.tensor(ids)).log_softmax(dim=1)

    return forward


@pytest.mark.parametrize("length", [1, 2, 16, 33, 75])
def test_scores_are_those_of_a_plain_forward(llm: LLM, plain: Any, length: int) -> None:
    ids = LONG[:length]
    expected = [float(row[token]) for row, token in zip(plain(ids), ids[1:], strict=False)]
    for _ in range(2):
        others, score = llm.score([PROMPT, ids], use_tqdm=False)
        assert score == [None, *(pytest.approx(value, abs=1e-3) for value in expected)]
        assert len(others) == len(PROMPT)


def test_prompt_then_output_join_to_the_values_of_one_forward(llm: LLM, plain: Any) -> None:
    output = generate(llm, LONG[:40], max_tokens=3, prompt_logprobs=2, logprobs=2)
    completion = output.outputs[0]
    assert output.prompt_logprobs is not None
    assert completion.logprobs is not None
    assert completion.cumulative_logprob is not None
    ids = LONG[:40] + completion.token_ids
    entries = output.prompt_logprobs + completion.logprobs
    assert entries[0] is None
    for position, (token, row) in enumerate(zip(ids[1:], plain(ids), strict=False), start=1):
        found = entries[position]
        assert found is not None
        assert {one: entry.logprob for one, entry in found.items()} == pytest.approx({one: float(row[one]) for one in found}, abs=1e-3)
        assert set(row.topk(2).indices.tolist()) | {token} == set(found)
    assert sum(position[token].logprob for token, position in zip(completion.token_ids, completion.logprobs, strict=True)) == pytest.approx(
        completion.cumulative_logprob
    )


def test_everything_survives_preemption(folder: Path) -> None:
    wishes: list[dict[str, Any]] = [
        {"logprobs": 1, "prompt_logprobs": 1},
        {"repetition_penalty": 1.3, "temperature": 0.8, "seed": 4, "logprobs": 0},
        {"logits_processors": {"no_repeat_ngram": 2}, "min_tokens": 40},
        {"allowed_token_ids": list(range(30, 90)), "bad_words": ["e", "to"], "temperature": 1.0, "seed": 2, "prompt_logprobs": 0},
    ]
    prompts = [LONG[start : start + 34] for start in range(0, 40, 5)]
    all_params = [params(max_tokens=60, **wish) for wish in wishes] * 2
    with small_llm(folder, num_blocks=100) as roomy, small_llm(folder, num_blocks=8) as tight:
        calm, busy = (llm.generate(prompts, all_params, use_tqdm=False) for llm in (roomy, tight))
        assert roomy.stats().counters.preemptions == 0
        assert tight.stats().counters.preemptions >= 4
    for expected, found in zip(calm, busy, strict=True):
        assert found.outputs[0].token_ids == expected.outputs[0].token_ids
        for one, other in ((expected.prompt_logprobs, found.prompt_logprobs), (expected.outputs[0].logprobs, found.outputs[0].logprobs)):
            assert (one is None) == (other is None)
            for here, there in zip(one or [], other or [], strict=True):
                assert {token: entry.logprob for token, entry in (there or {}).items()} == pytest.approx(
                    {token: entry.logprob for token, entry in (here or {}).items()}, abs=1e-3
                )


def test_logprobs_grow_with_a_stream(llm: LLM) -> None:
    outputs = [output.outputs[0] for output in llm.stream(PROMPT, params(logprobs=0))]
    assert [len(output.logprobs or ()) for output in outputs] == list(range(1, 9))
    totals = [output.cumulative_logprob for output in outputs]
    assert all(later < earlier for earlier, later in itertools.pairwise(totals))  # type: ignore[operator]
    assert all(math.isfinite(total) for total in totals if total is not None)
