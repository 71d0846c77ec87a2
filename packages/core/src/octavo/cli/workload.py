"""Prompts and parameters of benchmarks."""

import random
from typing import TYPE_CHECKING

from octavo.errors import ConfigurationError
from octavo.sampling_params import SamplingParams

if TYPE_CHECKING:
    from octavo.llm import LLM

MOST_PROMPTS = 100_000
MOST_PROMPT_TOKENS = 1 << 25
"""Of a workload that is made up; a gigabyte or two of Python integers."""


def random_prompts(num_prompts: int, input_len: int, *, vocab_size: int, seed: int) -> list[list[int]]:
    """Prompts of ids drawn from the whole vocabulary."""
    source = random.Random(seed)  # noqa: S311 - a workload, not a secret
    return [[source.randrange(vocab_size) for _ in range(input_len)] for _ in range(num_prompts)]


def fixed_length(output_len: int) -> SamplingParams:
    """Greedy, exactly so many tokens, no text."""
    return SamplingParams(temperature=0, max_tokens=output_len, ignore_eos=True, detokenize=False)


def check_workload(llm: "LLM", *, num_prompts: int, input_len: int, output_len: int) -> None:
    """Refuse a workload that cannot be run before its prompts are made. Raises `ConfigurationError`."""
    check_lengths(llm, longest=input_len, output_len=output_len)
    if num_prompts * input_len > MOST_PROMPT_TOKENS:
        raise ConfigurationError(
            f"{num_prompts:,} prompts of {input_len:,} tokens are {num_prompts * input_len:,} tokens at once, "
            f"over the most that are made up, {MOST_PROMPT_TOKENS:,}: ask for fewer or for shorter ones"
        )


def check_lengths(llm: "LLM", *, longest: int, output_len: int) -> None:
    """Refuse a workload whose longest prompt and its output do not fit into the context. Raises `ConfigurationError`."""
    limit = llm.engine.info.max_model_len
    if longest + output_len > limit:
        raise ConfigurationError(
            f"a prompt of {longest} tokens and {output_len} of output are over the context of {limit} tokens: "
            "shorten them or raise --max-model-len"
        )
