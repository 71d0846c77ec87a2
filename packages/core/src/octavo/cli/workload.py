"""Prompts and parameters of benchmarks."""

import random
from typing import TYPE_CHECKING

from octavo.errors import ConfigurationError
from octavo.sampling_params import SamplingParams

if TYPE_CHECKING:
    from octavo.llm import LLM


def random_prompts(num_prompts: int, input_len: int, *, vocab_size: int, seed: int) -> list[list[int]]:
    """Prompts of ids drawn from the whole vocabulary."""
    source = random.Random(seed)  # noqa: S311 - a workload, not a secret
    return [[source.randrange(vocab_size) for _ in range(input_len)] for _ in range(num_prompts)]


def fixed_length(output_len: int) -> SamplingParams:
    """Greedy, exactly so many tokens, no text."""
    return SamplingParams(temperature=0, max_tokens=output_len, ignore_eos=True, detokenize=False)


def check_lengths(llm: "LLM", *, longest: int, output_len: int) -> None:
    """Refuse a workload whose longest prompt and its output do not fit into the context. Raises `ConfigurationError`."""
    limit = llm.engine.info.max_model_len
    if longest + output_len > limit:
        raise ConfigurationError(
            f"a prompt of {longest} tokens and {output_len} of output are over the context of {limit} tokens: "
            "shorten them or raise --max-model-len"
        )
