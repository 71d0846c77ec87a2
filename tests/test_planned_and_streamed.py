"""The real engine, started once: it holds what was planned, and streams many answers at the same time."""

import asyncio
import json
import logging
from collections.abc import Iterator
from itertools import pairwise

import pytest

from octavo import AsyncLLM, SamplingParams
from octavo.cli.main import run

POOL = "64MiB"
GREEDY = SamplingParams(temperature=0, max_tokens=12)
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
NUM_STREAMS = 6


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[AsyncLLM, list[str]]]:
    """The facade, and what the engine logged about memory while it started."""
    log, lines = logging.getLogger("octavo.memory"), _Lines()
    level = log.level
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    llm = AsyncLLM("smollm2", kv_cache_memory_bytes=POOL)
    log.removeHandler(lines)
    log.setLevel(level)
    yield llm, lines.lines
    asyncio.run(llm.close())


def test_the_plan_says_what_the_engine_logs(started: tuple[AsyncLLM, list[str]], capfd: pytest.CaptureFixture[str]) -> None:
    _, logged = started
    assert run(["plan", "smollm2", "--kv-cache-memory-bytes", POOL]) == 0
    planned = capfd.readouterr().out.splitlines()
    lines = [line for line in logged if line.startswith(("KV cache size", "Maximum concurrency"))]
    assert len(lines) == 2
    assert [line for line in planned if line in lines] == lines


def test_the_plan_counts_the_blocks_of_the_engine(started: tuple[AsyncLLM, list[str]], capfd: pytest.CaptureFixture[str]) -> None:
    info = started[0].info
    assert run(["plan", "--kv-cache-memory-bytes", POOL, "--json"]) == 0
    plan = json.loads(capfd.readouterr().out)
    assert (plan["num_blocks"], plan["max_model_len"]) == (info.num_blocks, info.max_model_len)
    assert plan["parameters"] == 134_515_008


def test_answers_stream_side_by_side(started: tuple[AsyncLLM, list[str]]) -> None:
    llm, _ = started

    async def answer() -> list[str]:
        return [output.outputs[0].text async for output in llm.stream(QUESTION, GREEDY)]

    async def main() -> None:
        for texts in await asyncio.gather(*(answer() for _ in range(NUM_STREAMS))):
            assert "Paris" in texts[-1]
            assert len(texts) > 1
            assert all(after.startswith(before) for before, after in pairwise(texts))
        stats = await llm.stats()
        assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)

    asyncio.run(main())
