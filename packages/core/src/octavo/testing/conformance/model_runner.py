"""What holds for every runner: whatever the plan, a request gets the tokens that it gets alone."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from octavo.config.engine import Decision, EngineConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.engine.build import build_loop, model_info
from octavo.engine.executor import Executor, FinishedStep, StepHandle
from octavo.engine.loop import EngineLoop
from octavo.engine.messages import EngineRequest
from octavo.engine.runner import ModelRunner, PoolSize
from octavo.metrics.stats import EngineStats
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import StepPlan, StepResult
from octavo.scheduler.policy import FirstComeFirstServed
from octavo.testing.conformance.faults import bare_faults

_USUAL_BLOCK_SIZE = 16
_MOST_STEPS = 2000

GREEDY = SamplingParams(temperature=0)
SEEDED = SamplingParams(temperature=0.8, top_p=0.9)
EDITED = SamplingParams(temperature=0, repetition_penalty=1.3, frequency_penalty=0.4, logit_bias={7: 2.0}, min_tokens=5)


@dataclass(frozen=True, kw_only=True)
class RunnerCase:
    """Requests that run together. Tokens are counted for blocks of 16, and in proportion for others.

    Attributes:
        name: what it is about.
        prompts: tokens of each prompt.
        num_output: output tokens of each.
        max_num_batched_tokens, max_num_seqs: limits of a step.
        num_blocks: of the pool.
        num_shared: first tokens that all prompts share, with the prefix cache on; 0: it is off.
        params: of all requests.
        aborts: the first request ends after its first token.
        preempts: blocks run out.
    """

    name: str
    prompts: tuple[int, ...]
    num_output: int = 12
    max_num_batched_tokens: int = 64
    max_num_seqs: int = 4
    num_blocks: int = 40
    num_shared: int = 0
    params: SamplingParams = GREEDY
    aborts: bool = False
    preempts: bool = False

    def __str__(self) -> str:
        return self.name


RUNNER_CASES: tuple[RunnerCase, ...] = (
    RunnerCase(name="one request", prompts=(20,)),
    RunnerCase(name="one token", prompts=(1,), num_output=3),
    RunnerCase(name="a prompt in chunks", prompts=(70,), max_num_batched_tokens=7, max_num_seqs=1),
    RunnerCase(name="a batch", prompts=(5, 33, 1, 16)),
    RunnerCase(name="prompts and answers in one step", prompts=(30, 3, 17, 1, 16, 40), max_num_batched_tokens=12),
    RunnerCase(name="requests come and go", prompts=(4, 9, 2, 25, 7, 13, 1, 6), max_num_seqs=3),
    RunnerCase(name="out of blocks", prompts=(30, 28, 25, 31), num_output=30, num_blocks=9, preempts=True),
    RunnerCase(name="shared prefixes", prompts=(50, 60, 49, 70), num_shared=48),
    RunnerCase(name="an abort", prompts=(20, 12, 8), aborts=True),
    RunnerCase(name="seeded draws", prompts=(30, 3, 17, 1), max_num_batched_tokens=12, params=SEEDED),
    RunnerCase(name="seeded draws out of blocks", prompts=(30, 28, 25, 31), num_output=30, num_blocks=9, params=SEEDED, preempts=True),
    RunnerCase(name="edited logits", prompts=(30, 3, 17, 1), max_num_batched_tokens=12, params=EDITED),
)


def check_runner(make_runner: Callable[[EngineConfig], ModelRunner], config: EngineConfig, case: RunnerCase) -> None:
    """Run a case, and each of its requests alone; tokens must be equal. Every result is held against its plan on the way.

    Args:
        make_runner: makes a runner that has not loaded yet, such as `lambda config: MyRunner(config, registries)`.
        config: of a small model, best in float32, so that two tokens are never as good as equally likely. Scheduler and cache are
            set by the case; the block size stays.
        case: of `RUNNER_CASES`.

    Raises:
        AssertionError: naming the case and what is wrong.
    """
    prompts = _prompts(config, case)
    together = _play(make_runner, _settings(config, case), case, prompts)
    if case.preempts:
        assert together.stats.counters.preemptions > 0, f"{case}: no request was preempted"
    if case.num_shared:
        assert together.stats.counters.prefix_hits > 0, f"{case}: no prefix was found in the cache"
    calm = replace(case, max_num_seqs=1, max_num_batched_tokens=1024, num_blocks=256, num_shared=0, aborts=False)
    alone = _play(make_runner, _settings(config, calm), calm, prompts)
    for request_id, tokens in together.tokens.items():
        expected = alone.tokens[request_id][: len(tokens)]
        assert tokens == expected, f"{case}: {request_id} got {tokens} in company and {expected} alone"


@dataclass(frozen=True, kw_only=True)
class _Played:
    """What requests got, and the counters at the end."""

    tokens: dict[str, list[int]]
    stats: EngineStats


class _CheckedExecutor(Executor):
    """Holds each result against its plan."""

    def __init__(self, runner: ModelRunner, vocab_size: int) -> None:
        self._runner = runner
        self._vocab_size = vocab_size
        self.num_steps = 0

    def start(self) -> PoolSize:
        self._runner.load()
        return self._runner.allocate_pool()

    def submit(self, plan: StepPlan) -> StepHandle:
        sent = msgspec.msgpack.encode(plan)
        result = self._runner.execute(msgspec.msgpack.decode(sent, type=StepPlan))
        self.num_steps += 1
        _check_result(plan, result, self._vocab_size)
        return FinishedStep(result)

    def shutdown(self) -> None:
        self._runner.shutdown()


def _check_result(plan: StepPlan, result: StepResult, vocab_size: int) -> None:
    assert result.step_id == plan.step_id, f"step {plan.step_id} is answered as step {result.step_id}"
    assert not result.errors, f"requests failed: {result.errors}"
    asked, answered = set(plan.num_output_tokens), set(result.token_ids)
    assert answered == asked, f"step {plan.step_id} samples for {sorted(asked)}, but tokens came for {sorted(answered)}"
    for request_id, token_ids in result.token_ids.items():
        assert token_ids, f"no token came for {request_id}"
        assert all(type(token) is int and 0 <= token < vocab_size for token in token_ids), f"{request_id} got {token_ids}"
    assert result.forward_s >= 0, "the forward took less than no time"
    assert result.sample_s >= 0, "sampling took less than no time"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=StepResult) == result, "the result cannot travel as bytes"


def _prompts(config: EngineConfig, case: RunnerCase) -> dict[str, list[int]]:
    draw = random.Random(case.name)  # noqa: S311 - prompts of a test
    scale = config.cache.block_size / _USUAL_BLOCK_SIZE
    allowed = [token for token in range(config.model.vocab_size) if token not in config.model.eos_token_ids]
    shared = draw.choices(allowed, k=math.ceil(case.num_shared * scale))
    lengths = [math.ceil(length * scale) for length in case.prompts]
    return {
        f"request-{index}": shared[:length] + draw.choices(allowed, k=max(0, length - len(shared))) for index, length in enumerate(lengths)
    }


def _settings(config: EngineConfig, case: RunnerCase) -> EngineConfig:
    """The configuration with the case's limits."""
    scheduler = SchedulerConfig(max_num_seqs=case.max_num_seqs, max_num_batched_tokens=case.max_num_batched_tokens)
    cache = replace(config.cache, num_blocks=case.num_blocks, memory_bytes=None, enable_prefix_caching=case.num_shared > 0)
    return replace(config, scheduler=scheduler, cache=cache)


def _play(
    make_runner: Callable[[EngineConfig], ModelRunner], config: EngineConfig, case: RunnerCase, prompts: dict[str, list[int]]
) -> _Played:
    runner = make_runner(config)
    executor = _CheckedExecutor(runner, config.model.vocab_size)
    try:
        pool = executor.start()
        _check_started(runner, pool, config)
        loop = build_loop(config, model_info(config, pool, runner.registries), executor, FirstComeFirstServed())
        played = _serve(loop, case, prompts)
        _check_empty_plan(runner, step_id=executor.num_steps)
    finally:
        executor.shutdown()
        executor.shutdown()
    return played


def _check_started(runner: ModelRunner, pool: PoolSize, config: EngineConfig) -> None:
    wanted = config.cache.num_blocks
    assert pool.num_blocks == wanted, f"the pool has {pool.num_blocks} blocks; {wanted} were asked for"
    limit = config.load.max_model_len
    assert 0 < pool.max_model_len <= limit, f"max_model_len is {pool.max_model_len}; {limit} are configured"
    assert pool.num_bytes >= 0, f"the pool has {pool.num_bytes} bytes"
    described = type(runner).describe(runner.registries)
    assert all(isinstance(decision, Decision) for decision in (*runner.decisions, *described)), "decisions are values of Decision"


def _serve(loop: EngineLoop, case: RunnerCase, prompts: dict[str, list[int]]) -> _Played:
    """Run requests to their ends; with a shared prefix the first runs ahead, so that its blocks are there for the others."""
    tokens: dict[str, list[int]] = {request_id: [] for request_id in prompts}
    waiting = list(prompts)
    steps = 0
    while waiting or loop.has_work():
        for request_id in waiting[: 1 if case.num_shared and not steps else None]:
            loop.add(_request(request_id, prompts[request_id], case))
            waiting.remove(request_id)
        with bare_faults():
            outputs = loop.step()
        for output in outputs:
            assert output.error is None, f"{output.request_id} failed: {output.error}"
            tokens[output.request_id] += output.new_token_ids
        if case.aborts and tokens["request-0"]:
            loop.abort("request-0")
        steps += 1
        assert steps < _MOST_STEPS, f"{case}: requests are still there after {steps} steps"
    return _Played(tokens=tokens, stats=loop.stats())


def _request(request_id: str, prompt: list[int], case: RunnerCase) -> EngineRequest:
    params = msgspec.structs.replace(case.params, max_tokens=case.num_output, ignore_eos=True)
    seed = sum(request_id.encode())
    return EngineRequest(request_id=request_id, token_ids=prompt, params=params, arrival_time=1.0, seed=seed)


def _check_empty_plan(runner: ModelRunner, *, step_id: int) -> None:
    result = runner.execute(StepPlan(step_id=step_id, removed=[], added=[], continued=[], num_tokens={}, num_output_tokens={}))
    assert result.step_id == step_id, "a plan without tokens is answered as another step"
    assert not result.token_ids, "a plan without tokens gave some"
