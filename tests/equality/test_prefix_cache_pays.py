"""A prefix that many prompts share is computed once."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from octavo import LLM, SamplingParams
from octavo_models.testing import write_tiny_llama

BLOCK_SIZE = 16
SHARED = 1024
NUM_PROMPTS = 32
VOCAB_SIZE = 512


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"), vocab_size=VOCAB_SIZE, max_position_embeddings=2048)


def prompts_of(own_lengths: Sequence[int]) -> list[list[int]]:
    """Prompts that share 1,024 tokens; no two of their own parts begin with the same token."""
    draw = random.Random(5)
    shared = [draw.randrange(3, VOCAB_SIZE) for _ in range(SHARED)]
    return [shared + [3 + index] + [draw.randrange(3, VOCAB_SIZE) for _ in range(length - 1)] for index, length in enumerate(own_lengths)]


def run(model: Path, prompts: list[list[int]], **flags: Any) -> tuple[list[int], list[list[int]], int]:
    """Cached tokens a prompt, outputs, and prompt tokens that were computed."""
    with LLM(str(model), dtype="float32", block_size=BLOCK_SIZE, num_blocks=640, max_model_len=1152, **flags) as llm:
        outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=4, ignore_eos=True), use_tqdm=False)
        computed = llm.stats().counters.prompt_tokens_computed
        assert llm.stats().counters.preemptions == 0
    return [output.num_cached_tokens for output in outputs], [output.outputs[0].token_ids for output in outputs], computed


@pytest.mark.parametrize(("own_length", "budget"), [(32, 256), (32, 4096), (1, 1040), (7, 256), (40, 1040)])
def test_a_shared_prefix_reaches_the_runner_once(tiny_model: Path, own_length: int, budget: int) -> None:
    cached, _, computed = run(tiny_model, prompts_of([own_length] * NUM_PROMPTS), max_num_batched_tokens=budget)
    assert computed == SHARED + NUM_PROMPTS * own_length
    assert cached == [0] + [SHARED] * (NUM_PROMPTS - 1)


def test_without_the_cache_everything_is_computed_and_the_tokens_are_the_same(tiny_model: Path) -> None:
    prompts = prompts_of([1 + index for index in range(8)])
    total = sum(map(len, prompts))
    cached, with_cache, computed = run(tiny_model, prompts)
    assert (cached, computed) == ([0] + [SHARED] * 7, total - 7 * SHARED)
    cached, without, computed = run(tiny_model, prompts, enable_prefix_caching=False)
    assert (cached, computed) == ([0] * 8, total)
    assert with_cache == without


def test_a_prompt_that_is_the_prefix_itself_computes_its_last_block(tiny_model: Path) -> None:
    prompts = prompts_of([16])
    cached, outputs, computed = run(tiny_model, [prompts[0], prompts[0][:SHARED], prompts[0][: SHARED + 1]])
    assert cached == [0, SHARED - BLOCK_SIZE, SHARED]
    assert computed == (SHARED + 16) + BLOCK_SIZE + 1
    assert all(len(tokens) == 4 for tokens in outputs)
