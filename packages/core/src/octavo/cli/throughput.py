"""What `octavo bench throughput` measures."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.cli.workload import check_lengths, fixed_length
from octavo.errors import ConfigurationError

if TYPE_CHECKING:
    from octavo.llm import LLM

_NUM_FIRST_IDS = 8
_WARM_UP_OUTPUT_LEN = 4


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """One measurement.

    Attributes:
        elapsed_s: from the first prompt queued to the last output.
        num_prompts, prompt_tokens, output_tokens: of all prompts together.
        output_tokens_per_s: output tokens over `elapsed_s`.
        dtype: of weights and activations.
        kv_cache_dtype: of the KV cache.
        threads: that computed; None where the runner does not say.
        cached_tokens: prompt tokens taken from the prefix cache.
        first_ids: the first output ids of each prompt.
    """

    elapsed_s: float
    num_prompts: int
    prompt_tokens: int
    output_tokens: int
    output_tokens_per_s: float
    dtype: str
    kv_cache_dtype: str
    threads: int | None
    cached_tokens: int
    first_ids: list[list[int]]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """For readers."""
        total = (self.prompt_tokens + self.output_tokens) / self.elapsed_s
        return [
            ("prompts", f"{self.num_prompts:,}"),
            ("prompt tokens", f"{self.prompt_tokens:,} ({self.cached_tokens:,} from the prefix cache)"),
            ("output tokens", f"{self.output_tokens:,}"),
            ("elapsed", f"{self.elapsed_s:.2f} s"),
            ("output tokens a second", f"{self.output_tokens_per_s:,.1f}"),
            ("all tokens a second", f"{total:,.1f}"),
            ("dtype, KV cache", f"{self.dtype}, {self.kv_cache_dtype}"),
            ("threads", "unknown" if self.threads is None else str(self.threads)),
        ]


def read_prompts(path: Path) -> list[list[int]]:
    """A JSON list of lists of token ids. Raises `ConfigurationError`; the ids are checked when they are queued."""
    try:
        prompts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"--token-ids {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"--token-ids {path} is not JSON: {error}") from error
    if not isinstance(prompts, list) or not prompts or not all(isinstance(prompt, list) for prompt in prompts):
        raise ConfigurationError(f"--token-ids {path} is not a JSON list of lists of token ids")
    return prompts


def measure_throughput(llm: "LLM", prompts: list[list[int]], output_len: int) -> Throughput:
    """Warm up, then generate `output_len` tokens for each prompt against the clock.

    The warm-up runs as many prompts of the same lengths, with the same shared beginnings, but every id is another.

    Raises:
        ConfigurationError: a prompt and its output do not fit into the context.
    """
    check_lengths(llm, longest=max(map(len, prompts)), output_len=output_len)
    vocab_size = llm.engine.info.vocab_size
    warm_up = [[(token_id + 1) % vocab_size for token_id in prompt] for prompt in prompts]
    llm.generate(_as_prompts(warm_up), fixed_length(min(output_len, _WARM_UP_OUTPUT_LEN)), use_tqdm=False)
    dropped = llm.reset_prefix_cache()
    assert dropped, "requests hold blocks after the warm-up"
    start = time.perf_counter()
    outputs = llm.generate(_as_prompts(prompts), fixed_length(output_len), use_tqdm=False)
    elapsed = time.perf_counter() - start
    answers = [output.outputs[0].token_ids for output in outputs]
    output_tokens = sum(map(len, answers))
    config = llm.engine.config
    return Throughput(
        elapsed_s=elapsed,
        num_prompts=len(prompts),
        prompt_tokens=sum(map(len, prompts)),
        output_tokens=output_tokens,
        output_tokens_per_s=output_tokens / elapsed,
        dtype=config.load.dtype,
        kv_cache_dtype=config.cache.dtype,
        threads=_num_threads(llm),
        cached_tokens=sum(output.num_cached_tokens for output in outputs),
        first_ids=[ids[:_NUM_FIRST_IDS] for ids in answers],
    )


def _as_prompts(token_ids: list[list[int]]) -> list[dict[str, Any]]:
    return [{"prompt_token_ids": ids} for ids in token_ids]


def _num_threads(llm: "LLM") -> int | None:
    values = [decision.value for decision in llm.engine.decisions if decision.name == "threads"]
    return int(values[0]) if values else None
