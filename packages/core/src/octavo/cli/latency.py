"""What `octavo bench latency` measures."""

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from octavo.cli.workload import check_workload, fixed_length, random_prompts
from octavo.errors import RequestFailedError
from octavo.frontend import Frontend
from octavo.input.prompts import TokenizedPrompt
from octavo.profile.steps import StepProfile

if TYPE_CHECKING:
    from octavo.llm import LLM

_PROFILED_BATCHES = 3
_PROFILE_SEED = 1 << 32
"""Above the seeds of measured batches, so that no prompt is cached."""
PERCENTILES = (10, 25, 50, 75, 90, 99)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and percentiles of some durations, in seconds."""

    mean: float
    percentiles: dict[int, float]

    @classmethod
    def of(cls, durations: Sequence[float]) -> "Spread | None":
        """None where there are none."""
        if not durations:
            return None
        import numpy as np

        values = np.percentile(np.asarray(durations), PERCENTILES)
        return cls(mean=float(np.mean(durations)), percentiles=dict(zip(PERCENTILES, map(float, values), strict=True)))


@dataclass(frozen=True, kw_only=True)
class Latency:
    """One measurement.

    Attributes:
        batch_size, input_len, output_len, num_iters: of the workload.
        total: from the requests of a batch queued to its last token, one duration a batch.
        time_to_first_token: from there to a request's first token, one a request.
        inter_token: between two tokens of a request; None where there is one token only.
        dtype: of weights and activations.
        kv_cache_dtype: of the KV cache.
    """

    batch_size: int
    input_len: int
    output_len: int
    num_iters: int
    total: Spread
    time_to_first_token: Spread
    inter_token: Spread | None
    dtype: str
    kv_cache_dtype: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON; durations in seconds."""
        return asdict(self)

    def table(self) -> list[str]:
        """Lines for readers; durations in milliseconds."""
        header = f"{'milliseconds':24}{'mean':>10}" + "".join(f"{f'p{percent}':>10}" for percent in PERCENTILES)
        spreads = {"total": self.total, "time to first token": self.time_to_first_token, "between tokens": self.inter_token}
        rows = [
            f"{name:24}" + "".join(f"{seconds * 1e3:10.2f}" for seconds in (spread.mean, *spread.percentiles.values()))
            for name, spread in spreads.items()
            if spread is not None
        ]
        return [header, *rows]


@dataclass
class _Durations:
    """What batches took, in seconds."""

    total: list[float]
    first: list[float]
    between: list[float]


def measure_latency(llm: "LLM", *, batch_size: int, input_len: int, output_len: int, num_iters: int, num_iters_warmup: int) -> Latency:
    """Run batches of random prompts one after the other; each is new to the prefix cache, and the first ones are not counted.

    Raises:
        ConfigurationError: a prompt and its output do not fit into the context.
        RequestFailedError: a request failed.
    """
    check_workload(llm, num_prompts=batch_size, input_len=input_len, output_len=output_len)
    engine, source = llm.engine, random.Random(llm.engine.config.seed)  # noqa: S311 - a workload, not a secret
    durations = _Durations([], [], [])
    for iteration in range(num_iters_warmup + num_iters):
        prompts = random_prompts(batch_size, input_len, vocab_size=engine.info.vocab_size, seed=source.getrandbits(32))
        measured = _run_batch(llm, prompts, output_len)
        if iteration >= num_iters_warmup:
            durations.total += measured.total
            durations.first += measured.first
            durations.between += measured.between
    total, first = Spread.of(durations.total), Spread.of(durations.first)
    assert total is not None
    assert first is not None
    return Latency(
        batch_size=batch_size,
        input_len=input_len,
        output_len=output_len,
        num_iters=num_iters,
        total=total,
        time_to_first_token=first,
        inter_token=Spread.of(durations.between),
        dtype=engine.config.load.dtype,
        kv_cache_dtype=engine.config.cache.dtype,
    )


def check_clocks(llm: "LLM") -> None:
    """Raise `ConfigurationError` where the engine's steps cannot be clocked."""
    with llm.engine.client.profiled(StepProfile()):
        pass


def profile_steps(llm: "LLM", *, batch_size: int, input_len: int, output_len: int) -> StepProfile:
    """Where the time of steps goes in a few batches that are run for it alone, as those of `measure_latency` are.

    Raises:
        ConfigurationError: the engine's steps cannot be clocked.
        RequestFailedError: a request failed.
    """
    profile, vocab_size = StepProfile(), llm.engine.info.vocab_size
    with llm.engine.client.profiled(profile):
        for number in range(_PROFILED_BATCHES):
            _run_batch(llm, random_prompts(batch_size, input_len, vocab_size=vocab_size, seed=_PROFILE_SEED + number), output_len)
    return profile


def _run_batch(llm: "LLM", prompts: list[list[int]], output_len: int) -> _Durations:
    """One batch, watched step by step, for a facade tells of a batch only when it has finished."""
    client, count = llm.engine.client, len(prompts)
    tokenized = [TokenizedPrompt(text=None, token_ids=prompt) for prompt in prompts]
    groups = Frontend.of(llm.engine).prepare(tokenized, [fixed_length(output_len)] * count, [0] * count, numbered=True)
    requests = [request for group in groups for request in group.requests]
    durations = _Durations([], [], [])
    seen: dict[str, float] = {}
    start = time.perf_counter()
    client.add(requests)
    try:
        num_left = count
        while num_left:
            outputs, now = client.step(), time.perf_counter()
            for output in outputs:
                if output.error is not None:
                    raise RequestFailedError(f"a request failed: {output.error}")
                if output.request_id in seen:
                    durations.between.append(now - seen[output.request_id])
                else:
                    durations.first.append(now - start)
                seen[output.request_id] = now
                num_left -= output.finish_reason is not None
        durations.total.append(time.perf_counter() - start)
    finally:
        client.abort(request.request_id for request in requests)
    return durations
