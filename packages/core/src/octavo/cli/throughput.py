"""What `octavo bench throughput` measures."""

import json
import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.cli.workload import check_lengths, fixed_length
from octavo.errors import ConfigurationError
from octavo.profile.spans import Detail
from octavo.profile.steps import StepProfile

if TYPE_CHECKING:
    from octavo.llm import LLM

_NUM_FIRST_IDS = 8
_WARM_UP_OUTPUT_LEN = 4
_CLOCKED_OUTPUT_LEN = 32

_log = logging.getLogger(__name__)


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
        library_share: of the time of a shorter run of the same requests, what passed in compiled code and tensor ops, without the Python
            around them; None where it was not asked for, or the engine's steps cannot be clocked.
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
    library_share: float | None = None

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
    """A JSON list of lists of integers. Raises `ConfigurationError`; that they are the model's ids is checked when they are queued."""
    try:
        prompts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"--token-ids {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--token-ids {path} is not JSON: {error}") from error
    if not isinstance(prompts, list) or not prompts or not all(map(_is_list_of_integers, prompts)):
        raise ConfigurationError(f"--token-ids {path} is not a JSON list of lists of token ids")
    return prompts


def _is_list_of_integers(prompt: object) -> bool:
    return isinstance(prompt, list) and set(map(type, prompt)) <= {int}


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


def measure_library_share(llm: "LLM", prompts: list[list[int]], output_len: int) -> float | None:
    """What share of a run passes in compiled code and tensor ops, clocked where Python calls them; None where it cannot be clocked.

    The run is of the same requests, all lengths shortened alike so that outputs have 32 tokens at most, and leaves nothing behind.
    """
    profile, vocab_size = StepProfile(Detail.CALLS), llm.engine.info.vocab_size
    scale = min(1.0, _CLOCKED_OUTPUT_LEN / output_len)
    shorter = [[(token_id + 2) % vocab_size for token_id in prompt[: max(1, round(len(prompt) * scale))]] for prompt in prompts]
    try:
        with llm.engine.client.profiled(profile):
            start = time.perf_counter()
            llm.generate(_as_prompts(shorter), fixed_length(min(output_len, _CLOCKED_OUTPUT_LEN)), use_tqdm=False)
            elapsed = time.perf_counter() - start
    except ConfigurationError as error:
        _log.info("library_share is unknown: %s", error)
        return None
    return profile.spans.library_s / elapsed


def _as_prompts(token_ids: list[list[int]]) -> list[dict[str, Any]]:
    return [{"prompt_token_ids": ids} for ids in token_ids]


def _num_threads(llm: "LLM") -> int | None:
    values = [decision.value for decision in llm.engine.decisions if decision.name == "threads"]
    return int(values[0]) if values else None
