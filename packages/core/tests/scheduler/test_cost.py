"""Tokens of prompts count by what they look back at."""

import pytest

from octavo.scheduler.cost import LEAST_CHUNK, Chunk, affordable_tokens, cut_chunk, extra_cost
from octavo.testing.engine import fake_engine


@pytest.mark.parametrize("context", [0, 100, 5000])
@pytest.mark.parametrize("budget", [64, 256, 2048])
def test_what_is_affordable_costs_the_budget(budget: int, context: int) -> None:
    count = affordable_tokens(budget, context, 1000)
    cost = count + extra_cost(count, context, 1000)
    assert count <= budget
    assert count == LEAST_CHUNK or budget - (2 + context / 1000 + count / 1000) <= cost <= budget + 1


def test_without_a_scale_all_tokens_count_alike() -> None:
    assert affordable_tokens(300, 10_000, 0) == 300
    assert extra_cost(300, 10_000, 0) == 0


def test_a_small_budget_is_not_exceeded() -> None:
    assert affordable_tokens(3, 100_000, 100) == 3


def test_chunks_of_a_long_prompt_shrink_and_those_that_generate_never_pause() -> None:
    engine = fake_engine(num_blocks=600, max_model_len=8192, max_num_seqs=4, max_num_batched_tokens=256, context_scale=1000)
    engine.add("short", [5] * 4, max_tokens=400)
    engine.step()
    engine.add("long", [6] * 8000, max_tokens=1)
    chunks = []
    while not engine.tokens["long"]:
        before = len(engine.tokens["short"])
        engine.step()
        assert len(engine.tokens["short"]) == before + 1
        chunks.append(engine.plans[-1].num_tokens["long"])
    assert 200 <= chunks[0] <= 255
    assert chunks[:-1] == sorted(chunks[:-1], reverse=True)
    assert LEAST_CHUNK <= chunks[-2] <= 32


def test_a_prompt_behind_one_that_takes_the_whole_budget_waits_and_shares_its_blocks() -> None:
    engine = fake_engine(num_blocks=600, max_model_len=8192, max_num_seqs=4, max_num_batched_tokens=256, context_scale=1000)
    for index in range(3):
        engine.add(str(index), [6] * 2000 + [7 + index] * 16, max_tokens=1)
    engine.run()
    assert sum(plan.total_tokens for plan in engine.plans) == 2016 + 2 * 16


def test_a_chunk_ends_with_the_prompt_the_limit_or_the_budget() -> None:
    assert cut_chunk(50, 0, budget=100, most=80, scale=0) == Chunk(50, 0)
    assert cut_chunk(90, 0, budget=100, most=80, scale=0) == Chunk(80, 0)
    assert cut_chunk(50, 1000, budget=200, most=80, scale=1000) == Chunk(50, 51)


def test_a_chunk_that_a_budget_cuts_takes_all_of_it() -> None:
    chunk = cut_chunk(500, 1000, budget=200, most=400, scale=1000)
    assert chunk.num_tokens == affordable_tokens(200, 1000, 1000) < 200
    assert sum(chunk) == 200
