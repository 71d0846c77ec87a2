"""Where the model runs does not show in what it says."""

from pathlib import Path

import pytest

from octavo import LLM, RequestOutput, SamplingParams
from octavo.errors import CheckpointError, ConfigurationError
from octavo_models.testing import write_tiny_llama

PROMPTS = ["the quick brown fox", "a", "it was the best of times, it was the worst of times " * 3, "the end", "once upon a time"]
PARAMS = [
    SamplingParams(temperature=0, max_tokens=24, ignore_eos=True),
    SamplingParams(temperature=0, max_tokens=8, logprobs=3, prompt_logprobs=2),
    SamplingParams(temperature=0.8, seed=5, top_p=0.9, max_tokens=24, ignore_eos=True),
    SamplingParams(temperature=0, max_tokens=16, repetition_penalty=1.3, logit_bias={40: 2.0}),
    SamplingParams(temperature=1, seed=9, n=3, max_tokens=12),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny")


def answers(folder: Path, executor: str) -> list[RequestOutput]:
    with LLM(str(folder), executor=executor, num_blocks=24, max_num_seqs=4, max_num_batched_tokens=32, dtype="float32") as llm:
        return llm.generate(PROMPTS, PARAMS, use_tqdm=False)


def test_a_worker_process_gives_the_same_answers(folder: Path) -> None:
    for here, there in zip(answers(folder, "inprocess"), answers(folder, "multiprocess"), strict=True):
        assert here.prompt_token_ids == there.prompt_token_ids
        assert here.prompt_logprobs == there.prompt_logprobs
        for mine, other in zip(here.outputs, there.outputs, strict=True):
            assert (mine.token_ids, mine.text, mine.finish_reason) == (other.token_ids, other.text, other.finish_reason)
            assert mine.logprobs == other.logprobs


def test_what_a_worker_finds_wrong_is_said_in_the_same_words(tmp_path: Path) -> None:
    damaged = write_tiny_llama(tmp_path / "damaged")
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    said = []
    for executor in ("inprocess", "multiprocess"):
        with pytest.raises(CheckpointError) as caught:
            LLM(str(damaged), executor=executor)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_an_unknown_executor_is_refused_with_those_that_there_are(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown executor 'multiproces': there are inprocess, multiprocess; did you mean"):
        LLM(str(folder), executor="multiproces")
