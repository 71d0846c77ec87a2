"""Every family through the whole engine: the tokens of Transformers, however the steps are cut."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from octavo import LLM, SamplingParams

NUM_TOKENS = 32
WINDOW = 8
ORIGINAL = 32
FACTORS = {
    "type": "longrope",
    "short_factor": [1.0 + 0.1 * pair for pair in range(8)],
    "long_factor": [1.0 + 0.7 * pair for pair in range(8)],
}
LONGROPE = {"original_max_position_embeddings": ORIGINAL, "rope_scaling": FACTORS}
YARN = {"rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": ORIGINAL}}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("qwen2", {}),
    "qwen2, some layers with a window": ("qwen2", {"use_sliding_window": True, "sliding_window": WINDOW}),
    "qwen2, yarn": ("qwen2", YARN),
    "qwen2, window in all layers": ("qwen2", {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 0}),
    "qwen3": ("qwen3", {}),
    "qwen3, tied, with a window and yarn": (
        "qwen3",
        {"tie_word_embeddings": True, "use_sliding_window": True, "sliding_window": WINDOW, **YARN},
    ),
    "qwen3_moe": ("qwen3_moe", {}),
    "qwen3_moe, some layers dense": ("qwen3_moe", {"mlp_only_layers": [0]}),
    "phi3, longrope": ("phi3", LONGROPE),
    "phi3, longrope within the original length": ("phi3", {"original_max_position_embeddings": 128, "rope_scaling": FACTORS}),
    "llama, dynamic within the original length": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 4.0}}),
    "phi3, window": ("phi3", {"sliding_window": WINDOW}),
}
QUICK = ("qwen2, some layers with a window", "qwen3_moe, some layers dense", "phi3, longrope")
PARAMETERS = [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]


@contextmanager
def engine(folder: Any, **flags: Any) -> Iterator[LLM]:
    llm = LLM(str(folder), max_model_len=128, num_blocks=48, max_num_seqs=4, **flags)
    try:
        yield llm
    finally:
        llm.close()


def generate(llm: LLM, prompts: list[list[int]]) -> list[list[int]]:
    params = SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS, ignore_eos=True)
    return [list(output.outputs[0].token_ids) for output in llm.generate(prompts, params, use_tqdm=False)]


def prompts() -> list[list[int]]:
    """Lengths beyond the original one, so that LongRoPE has one table for prompt and answer; the second shares three blocks."""
    draw = torch.Generator().manual_seed(5)
    first = torch.randint(3, 320, (70,), generator=draw).tolist()
    return [first, first[:48] + torch.randint(3, 320, (5,), generator=draw).tolist(), first[20:53]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", PARAMETERS)
def test_greedy_tokens_equal_those_of_transformers(reference: Callable[..., Any], case: str) -> None:
    family, changes = CASES[case]
    expected = reference(family, **changes)
    wanted = [expected.greedy(prompt, NUM_TOKENS) for prompt in prompts()]
    assert len({tuple(tokens) for tokens in wanted}) == 3
    with engine(expected.folder, enable_prefix_caching=False) as llm:
        assert generate(llm, prompts()) == wanted
    with engine(expected.folder, max_num_batched_tokens=16) as llm:
        assert generate(llm, prompts()) == wanted
        assert generate(llm, prompts()) == wanted, "with a warm prefix cache"
        assert llm.stats().counters.prefix_hits > 0


@pytest.mark.filterwarnings("ignore")
def test_ids_beyond_the_tokenizer_are_no_text(reference: Callable[..., Any]) -> None:
    padded = reference("qwen2", vocab_size=352)
    with engine(padded.folder) as llm:
        params = SamplingParams(temperature=0.0, max_tokens=4, logit_bias={340: 100.0}, ignore_eos=True)
        (output,) = llm.generate([[5, 6, 7]], params, use_tqdm=False)
    assert list(output.outputs[0].token_ids) == [340] * 4
    assert output.outputs[0].text == ""
