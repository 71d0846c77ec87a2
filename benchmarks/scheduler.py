"""What the engine's own work costs a step, without a model: `OMP_NUM_THREADS=1 uv run --no-sync python benchmarks/scheduler.py`.

Three measurements, each against its limit:

- a decode step (schedule and update, with block allocation, stop checks, statistics and outputs) of 256 requests whose contexts are
  100 to 4,000 tokens long: mean over the steps of a run, best of five runs;
- building a pool of a million blocks;
- looking up a prefix of 100,000 tokens, hashing included, where all of it is cached.
"""

import argparse
import gc
import json
import random
import sys
import time

from octavo.cache.block_pool import BlockPool
from octavo.cache.manager import KVCacheManager
from octavo.cache.spec import kv_groups
from octavo.config.scheduler import SchedulerConfig
from octavo.engine.messages import EngineRequest
from octavo.model.config import ModelConfig, RopeConfig
from octavo.request import Request
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import StepPlan, StepResult
from octavo.scheduler.policy import FirstComeFirstServed
from octavo.scheduler.scheduler import Scheduler

NUM_REQUESTS = 256
SHORTEST, LONGEST = 100, 4000
BLOCK_SIZE = 16
NUM_RUNS, NUM_STEPS, NUM_WARM_UP_STEPS = 5, 200, 20
POOL_BLOCKS = 1_000_000
PREFIX_TOKENS = 100_000
MAX_NUM_BATCHED_TOKENS = 8192
LIMITS_MS = {"decode_step": 1.5, "pool": 2000.0, "prefix_lookup": 50.0}
VOCABULARY = 128_000
EOS = 2


def main() -> None:
    """Measure, print a line each, and fail where a limit is not kept (with `--check`)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a measurement is over its limit")
    parser.add_argument("--profile", action="store_true", help="print where a decode step spends its time")
    arguments = parser.parse_args()
    if arguments.profile:
        profile_decode()
        return
    results = {"decode_step": decode_step_ms(), "pool": pool_ms(), "prefix_lookup": prefix_lookup_ms()}
    if arguments.json:
        print(json.dumps(results))
    else:
        for name, value in results.items():
            print(f"{name:16} {value:10.3f} ms   (limit {LIMITS_MS[name]:g} ms)")
    if arguments.check and any(value > LIMITS_MS[name] for name, value in results.items()):
        sys.exit(1)


def decode_step_ms() -> float:
    """Mean of a decode step, best of all runs."""
    return min(_decode_run(seed) for seed in range(NUM_RUNS))


def pool_ms() -> float:
    """Time to build a pool of a million blocks."""
    start = time.perf_counter()
    pool = BlockPool(POOL_BLOCKS)
    elapsed = time.perf_counter() - start
    assert pool.num_free == POOL_BLOCKS
    return elapsed * 1e3


def prefix_lookup_ms() -> float:
    """Time to hash a long prompt and find all its blocks."""
    num_blocks = PREFIX_TOKENS // BLOCK_SIZE + 100
    cache = _cache(num_blocks)
    source = random.Random(7)
    prompt = [source.randrange(VOCABULARY) for _ in range(PREFIX_TOKENS)]
    first, second = _request("first", prompt), _request("second", prompt)
    assert cache.allocate(first, cache.find_cached(first), len(prompt)) is not None
    first.num_scheduled_tokens = len(prompt)
    cache.register(first)
    start = time.perf_counter()
    found = cache.find_cached(second)
    elapsed = time.perf_counter() - start
    assert found.num_tokens == (len(prompt) - 1) // BLOCK_SIZE * BLOCK_SIZE
    return elapsed * 1e3


def profile_decode() -> None:
    """Print the functions that decode steps spend most time in."""
    import cProfile
    import pstats

    scheduler = _running(seed=0)
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(NUM_STEPS):
        _step(scheduler)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(20)


def _decode_run(seed: int) -> float:
    scheduler = _running(seed)
    for _ in range(NUM_WARM_UP_STEPS):
        _step(scheduler)
    gc.collect()
    total = 0.0
    for _ in range(NUM_STEPS):
        total += _step(scheduler)
    assert scheduler.stats().counters.preemptions == 0
    assert scheduler.stats().running == NUM_REQUESTS
    return total / NUM_STEPS * 1e3


def _running(seed: int) -> Scheduler:
    """A scheduler whose requests have all read their prompts."""
    source = random.Random(seed)
    lengths = [source.randint(SHORTEST, LONGEST) for _ in range(NUM_REQUESTS)]
    num_blocks = sum(-(-(length + NUM_STEPS * 2) // BLOCK_SIZE) + 1 for length in lengths)
    config = SchedulerConfig(max_num_seqs=NUM_REQUESTS, max_num_batched_tokens=MAX_NUM_BATCHED_TOKENS)
    scheduler = Scheduler(config, FirstComeFirstServed(), _cache(num_blocks), max_model_len=2 * LONGEST, eos_token_ids=frozenset({EOS}))
    params = SamplingParams(temperature=0, max_tokens=LONGEST, stop_token_ids=[3])
    for index, length in enumerate(lengths):
        prompt = [source.randrange(10, VOCABULARY) for _ in range(length)]
        scheduler.add(EngineRequest(request_id=str(index), token_ids=prompt, params=params, arrival_time=time.monotonic(), seed=index))
    while scheduler.stats().counters.generated_tokens < NUM_REQUESTS or scheduler.stats().waiting:
        _step(scheduler)
    return scheduler


def _step(scheduler: Scheduler) -> float:
    """One step; the seconds that the scheduler spent on it."""
    start = time.perf_counter()
    plan = scheduler.schedule()
    scheduled = time.perf_counter()
    assert plan is not None
    result = _result(plan)
    returned = time.perf_counter()
    outputs = scheduler.update(plan, result)
    end = time.perf_counter()
    assert len(outputs) == len(plan.num_output_tokens)
    return scheduled - start + end - returned


def _result(plan: StepPlan) -> StepResult:
    """What a runner would return: a token for each request that samples, never one that ends it."""
    return StepResult(step_id=plan.step_id, token_ids={request_id: [10 + count] for request_id, count in plan.num_output_tokens.items()})


def _cache(num_blocks: int) -> KVCacheManager:
    model = ModelConfig(
        architecture="llama",
        vocab_size=VOCABULARY,
        hidden_size=4096,
        intermediate_size=14336,
        num_layers=32,
        num_heads=32,
        num_kv_heads=8,
        head_size=128,
        rms_norm_eps=1e-5,
        rope=RopeConfig(theta=5e5, dim=128),
        max_position=131_072,
        tie_embeddings=False,
    )
    groups = kv_groups(model, block_size=BLOCK_SIZE, dtype="bfloat16")
    return KVCacheManager(groups, num_blocks, max_step_tokens=MAX_NUM_BATCHED_TOKENS, enable_prefix_caching=True)


def _request(request_id: str, token_ids: list[int]) -> Request:
    message = EngineRequest(request_id=request_id, token_ids=token_ids, params=SamplingParams(), arrival_time=0.0, seed=0)
    return Request.from_message(message, arrival=0, max_total_tokens=len(token_ids) + 16)


if __name__ == "__main__":
    main()
