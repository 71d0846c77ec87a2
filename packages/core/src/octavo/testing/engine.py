"""A whole engine on the fake device, small enough to run out of everything."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from octavo.cache.manager import KVCacheManager
from octavo.cache.spec import FullAttentionSpec, KVGroup, SlidingWindowSpec
from octavo.config.scheduler import SchedulerConfig
from octavo.engine.loop import EngineLoop
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import StepPlan
from octavo.scheduler.policy import FirstComeFirstServed, SchedulerPolicy
from octavo.scheduler.scheduler import Scheduler
from octavo.testing.device import FakeDevice
from octavo.testing.executor import FakeExecutor, Faults
from octavo.testing.model import Draw

EOS_TOKEN_ID = 2
_MESSAGE_FIELDS = {"priority", "leader", "cache_salt", "seed", "tenant"}


@dataclass
class FakeEngine:
    """Every part of an engine, and what its requests gained.

    Attributes:
        tokens: output of each request so far.
        last: last output of each request that had one.
        steps: calls of `step` so far.
    """

    scheduler: Scheduler
    cache: KVCacheManager
    loop: EngineLoop
    executor: FakeExecutor
    tokens: dict[str, list[int]] = field(default_factory=dict)
    last: dict[str, EngineOutput] = field(default_factory=dict)
    steps: int = 0

    @property
    def plans(self) -> list[StepPlan]:
        """Every plan that was submitted."""
        return self.executor.plans

    def add(self, request_id: str, prompt: Sequence[int], **options: Any) -> None:
        """Queue a request; `options` are fields of `EngineRequest` and `SamplingParams`, which is greedy and deaf to EOS by default."""
        fields = {name: options.pop(name) for name in _MESSAGE_FIELDS & set(options)}
        params = SamplingParams(**{"temperature": 0.0, "ignore_eos": True, **options})
        message = EngineRequest(request_id=request_id, token_ids=list(prompt), params=params, arrival_time=1.0, **{"seed": 0, **fields})
        self.loop.add(message)
        self.tokens[request_id] = []

    def step(self, count: int = 1) -> list[EngineOutput]:
        """Take some steps, check the books after each, and return the outputs of the last."""
        outputs: list[EngineOutput] = []
        for _ in range(count):
            outputs = self.loop.step()
            self.steps += 1
            for output in outputs:
                self.tokens[output.request_id] += output.new_token_ids
                self.last[output.request_id] = output
            self.scheduler.check_integrity()
        return outputs

    def run(self, most: int = 2000) -> None:
        """Step until nothing is left to do, in `most` steps."""
        for _ in range(most):
            if not self.loop.has_work():
                return
            self.step()
        raise AssertionError(f"the engine still has work after {most} steps")


def fake_groups(block_sizes: Sequence[int], windows: Sequence[int | None] = ()) -> list[KVGroup]:
    """KV groups of one small layer each, with these windows; by default without."""
    shape: dict[str, Any] = {"num_kv_heads": 1, "head_size": 8, "dtype": "float32"}
    specs = [FullAttentionSpec(**shape) if window is None else SlidingWindowSpec(**shape, window=window) for window in windows]
    specs = specs or [FullAttentionSpec(**shape)] * len(block_sizes)
    return [KVGroup(spec=spec, layers=(layer,), block_size=size) for layer, (spec, size) in enumerate(zip(specs, block_sizes, strict=True))]


def fake_engine(
    *,
    num_blocks: int = 12,
    block_sizes: Sequence[int] = (16,),
    windows: Sequence[int | None] = (),
    max_num_seqs: int = 4,
    max_num_batched_tokens: int = 32,
    long_prefill_token_threshold: int = 0,
    context_scale: int = 0,
    max_model_len: int = 128,
    enable_prefix_caching: bool = True,
    vocab_size: int = 1000,
    max_in_flight: int = 1,
    policy: SchedulerPolicy | None = None,
    faults: Faults | None = None,
    draw: Draw | None = None,
    clock: Callable[[], int] = time.monotonic_ns,
) -> FakeEngine:
    """Build an engine of one layer a KV group; no group has a window, and `policy` is first come, first served, by default.

    `clock` gives the nanoseconds of the block ledger.
    """
    groups = fake_groups(block_sizes, windows)
    config = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        long_prefill_token_threshold=long_prefill_token_threshold,
        context_scale=context_scale,
    )
    cache = KVCacheManager(groups, num_blocks, max_step_tokens=config.max_chunk, enable_prefix_caching=enable_prefix_caching, clock=clock)
    scheduler = Scheduler(
        config, policy or FirstComeFirstServed(), cache, max_model_len=max_model_len, eos_token_ids=frozenset({EOS_TOKEN_ID})
    )
    device = FakeDevice(
        block_sizes,
        num_blocks=num_blocks,
        windows=windows,
        vocab_size=vocab_size,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        draw=draw,
    )
    executor = FakeExecutor(device, max_in_flight=max_in_flight, faults=faults)
    return FakeEngine(scheduler, cache, EngineLoop(scheduler, executor), executor)
