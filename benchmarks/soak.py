"""Mixed traffic at full load for a long time: `uv run --no-sync python benchmarks/soak.py --minutes 30`.

Prompts of many lengths, some with a common beginning; every sampling option; several choices; streams that are read to their end, left
in their middle, aborted by name or cancelled. A tiny model, unless one is named, makes as many steps and requests of it as can be; its
pool is too small for all of them, so that requests are preempted.

Nothing may be left of it. The process exits with 1 where, after a warm-up,

- resident memory grows, by the slope of a line through all samples;
- something is compiled;
- any table of the engine, its clients or its runner has another size than before, once nothing runs;
- the books of the pool do not balance.

A line a minute says how it goes; `--minutes 1` is a check of a minute.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from soak_tables import differences, table_sizes
from soak_traffic import Traffic

if TYPE_CHECKING:
    from octavo.async_llm import AsyncLLM
    from octavo.engine.build import Engine

NUM_CLIENTS, MAX_NUM_SEQS, NUM_BLOCKS, MAX_MODEL_LEN, MAX_NUM_BATCHED_TOKENS = 48, 24, 160, 1024, 512
WARM_UP_SHARE, LONGEST_WARM_UP_S = 0.2, 180.0
SAMPLES_A_RUN = 240
PAGE_BYTES = 4096
MIB = 1 << 20


def main() -> None:
    """Run, print what is wrong, and exit with 1 where something is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--model", help="name, folder or file; default: a tiny random one")
    parser.add_argument("--optimization-level", default="auto", help="as of `octavo serve`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--growth-mib", type=float, default=16.0, help="most that resident memory may grow behind the warm-up")
    arguments = parser.parse_args()
    with model_of(arguments.model) as model:
        problems = asyncio.run(soak(model, arguments))
    for problem in problems:
        print(f"WRONG: {problem}")
    print("failed" if problems else "passed")
    sys.exit(bool(problems))


@contextmanager
def model_of(name: str | None) -> Iterator[str]:
    if name is not None:
        yield name
        return
    from octavo_models.testing import write_tiny_llama

    with tempfile.TemporaryDirectory() as folder:
        yield str(write_tiny_llama(Path(folder) / "tiny", max_position_embeddings=MAX_MODEL_LEN))


async def soak(model: str, arguments: argparse.Namespace) -> list[str]:
    """What is wrong in the end."""
    from octavo.async_llm import AsyncLLM

    engine = build(model, arguments)
    seconds = arguments.minutes * 60
    warm_up = min(WARM_UP_SHARE * seconds, LONGEST_WARM_UP_S)
    async with AsyncLLM.from_engine(engine) as llm:
        traffic = Traffic(llm, num_clients=NUM_CLIENTS, seed=arguments.seed)
        watch = Watch(llm, traffic)
        await watch.run(warm_up)
        await rest(llm, engine)
        before, compiled = table_sizes((llm, engine)), num_compiled()
        watch.forget_samples()
        await watch.run(seconds - warm_up)
        await rest(llm, engine)
        problems = traffic.problems()
        problems += [f"table {difference}" for difference in differences(before, table_sizes((llm, engine)))]
    if (more := num_compiled() - compiled) > 0:
        problems.append(f"{more} compiles after the warm-up")
    growth = watch.growth_mib()
    print(f"resident memory grew by {growth:.1f} MiB in {seconds - warm_up:.0f} s (limit {arguments.growth_mib:g})")
    if growth > arguments.growth_mib:
        problems.append(f"resident memory grew by {growth:.1f} MiB")
    return problems


def build(model: str, arguments: argparse.Namespace) -> "Engine":
    from octavo.config.options import EngineOptions
    from octavo.engine.build import build_engine

    options = EngineOptions(
        model=model,
        max_model_len=MAX_MODEL_LEN,
        max_num_seqs=MAX_NUM_SEQS,
        max_num_batched_tokens=MAX_NUM_BATCHED_TOKENS,
        num_blocks=NUM_BLOCKS,
        block_size=16,
        optimization_level=arguments.optimization_level,
        seed=arguments.seed,
    )
    return build_engine(options)


async def rest(llm: "AsyncLLM", engine: "Engine") -> None:
    """Wait until the engine idles, check its books and forget every prefix."""
    while (stats := await llm.stats()).running + stats.waiting or not await llm.reset_prefix_cache():
        await asyncio.sleep(0.01)
    # The runner hears of the last requests' ends with the next step.
    while engine.client.has_work():
        await asyncio.sleep(0.01)
    engine.client._loop._scheduler.check_integrity()
    llm.load()  # takes in what the engine said of itself last


def num_compiled() -> int:
    """Graphs that torch's compiler has made in this process; 0 where it was never imported."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])


class Watch:
    """Lets traffic flow, samples memory, and prints a line a minute."""

    def __init__(self, llm: "AsyncLLM", traffic: Traffic) -> None:
        self._llm = llm
        self._traffic = traffic
        self._start = time.monotonic()
        self._minutes = 0
        self._samples: list[tuple[float, float]] = []

    async def run(self, seconds: float) -> None:
        """Full load for so long, and then to the end of every request."""
        end, flow = time.monotonic() + seconds, asyncio.create_task(self._traffic.flow(seconds))
        while not flow.done() and time.monotonic() < end:
            await asyncio.wait([flow], timeout=seconds / SAMPLES_A_RUN)
            self._samples.append((time.monotonic() - self._start, resident_mib()))
            if self._samples[-1][0] >= 60 * (self._minutes + 1):
                self._minutes += 1
                await self._print()
        await flow

    def forget_samples(self) -> None:
        """Begin to watch memory anew."""
        self._samples.clear()

    def growth_mib(self) -> float:
        """By how much a line through the samples rises."""
        times, values = zip(*self._samples, strict=True)
        middle, mean = sum(times) / len(times), sum(values) / len(values)
        rise = sum((moment - middle) * (value - mean) for moment, value in self._samples)
        return rise / sum((moment - middle) ** 2 for moment in times) * (times[-1] - times[0])

    async def _print(self) -> None:
        stats, traffic = await self._llm.stats(), self._traffic
        counters = stats.counters
        print(
            f"{self._minutes:4} min  {resident_mib():8.1f} MiB  {traffic.num_done:8,} requests  {counters.steps:9,} steps  "
            f"{counters.generated_tokens:10,} tokens  {counters.preemptions:6,} preemptions  {counters.prefix_hits:10,} cached  "
            f"{stats.running:4} running  {stats.waiting:4} waiting",
            flush=True,
        )


def resident_mib() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES / MIB


if __name__ == "__main__":
    main()
