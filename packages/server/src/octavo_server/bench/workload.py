"""Prompts to send, and how much each is to be answered."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from octavo_server.bench.dataset import load_dataset
from octavo_server.bench.prompt import Prompt
from octavo_server.bench.words import WORDS

_LARGE_VOCABULARY = 1024
_NUM_LOW_IDS = 256
_DEFAULT_PREFIX_LEN = 256
WARM_UP_LENGTHS = (128, 16)
"""Tokens of a warm-up prompt and its answer where the workload's own lengths are those of a file."""


@dataclass(frozen=True, kw_only=True)
class WorkloadConfig:
    """What to send.

    Attributes:
        kind: "random"; "shared-prefix", random behind one of a few beginnings; "jsonl", from a file.
        num_prompts: requests; of a file no more than it holds.
        input_len: tokens of a random prompt, those of a shared prefix not counted.
        output_len: tokens of an answer; None: 128, or what the file says.
        range_ratio: lengths are drawn evenly from (1 - ratio) to (1 + ratio) times these.
        prefix_len: tokens of a shared prefix.
        num_prefixes: how many of them there are.
        dataset: path of the file.
    """

    kind: str = "random"
    num_prompts: int = 100
    input_len: int = 512
    output_len: int | None = None
    range_ratio: float = 0.0
    prefix_len: int | None = None
    num_prefixes: int | None = None
    dataset: str | None = None

    @property
    def fixed_output_len(self) -> int:
        """Tokens of an answer where no file says them."""
        return 128 if self.output_len is None else self.output_len

    @property
    def shared_prefix(self) -> tuple[int, int]:
        """How many shared prefixes there are and of how many tokens; (1, 0) where nothing is shared."""
        if self.kind != "shared-prefix":
            return 1, 0
        return 8 if self.num_prefixes is None else self.num_prefixes, _DEFAULT_PREFIX_LEN if self.prefix_len is None else self.prefix_len


@dataclass(frozen=True)
class TokenSource:
    """What random prompts are made of.

    Attributes:
        vocab_size: ids below it are drawn, save the lowest of a large vocabulary, where special tokens and bytes tend to be; None: words.
    """

    vocab_size: int | None

    def draw(self, source: random.Random, count: int) -> list[int] | list[str]:
        """So many ids or words."""
        if self.vocab_size is None:
            return source.choices(WORDS, k=count)
        lowest = _NUM_LOW_IDS if self.vocab_size > _LARGE_VOCABULARY else 0
        return source.choices(range(lowest, self.vocab_size), k=count)


def make_prompts(config: WorkloadConfig, tokens: TokenSource, *, seed: int) -> list[Prompt]:
    """The prompts of a workload in the order in which they are sent; the same seed gives the same ones. Raises `ConfigurationError`."""
    source = random.Random(f"{seed} prompts")  # noqa: S311 - a workload, not a secret
    if config.dataset is not None:
        prompts = load_dataset(config.dataset, output_len=config.output_len)
        source.shuffle(prompts)
        return prompts[: config.num_prompts]
    num_prefixes, prefix_len = config.shared_prefix
    prefixes = [tokens.draw(source, prefix_len) for _ in range(num_prefixes)]
    turns = [number % num_prefixes for number in range(config.num_prompts)]
    source.shuffle(turns)
    return [_random_prompt(config, tokens, source, prefixes[turn]) for turn in turns]


def make_warm_up(config: WorkloadConfig, tokens: TokenSource, *, count: int, seed: int) -> list[Prompt]:
    """Random prompts that share nothing with those of the workload, of the same lengths where these are known."""
    source = random.Random(f"{seed} warm-up")  # noqa: S311 - a workload, not a secret
    input_len = config.input_len + config.shared_prefix[1]
    output_len = config.fixed_output_len
    if config.dataset is not None:
        input_len, output_len = WARM_UP_LENGTHS
    return [Prompt.of(tokens.draw(source, input_len), output_len) for _ in range(count)]


def _random_prompt(config: WorkloadConfig, tokens: TokenSource, source: random.Random, prefix: Sequence[int] | Sequence[str]) -> Prompt:
    own = tokens.draw(source, _length(source, config.input_len, config.range_ratio))
    return Prompt.of([*prefix, *own], _length(source, config.fixed_output_len, config.range_ratio))


def _length(source: random.Random, length: int, ratio: float) -> int:
    return max(1, source.randint(round(length * (1 - ratio)), round(length * (1 + ratio))))
