"""What tenants are charged with: it adds up, whatever the scheduler does."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.cache.ledger import NANOSECONDS
from octavo.testing.engine import FakeEngine, fake_engine

PROMPT = list(range(10, 30))
TENANTS = ["", "a", "b"]


def tables(engine: FakeEngine) -> Iterator[tuple[str, int]]:
    """Each block that a request holds, with the request's name."""
    for request_id, held in engine.cache._held.items():
        yield from ((request_id, block) for table in held.tables for block in table if block)


@pytest.mark.parametrize("caching", [True, False])
def test_tokens_are_counted_as_requests_end(caching: bool) -> None:
    engine = fake_engine(enable_prefix_caching=caching)
    engine.add("first", PROMPT, max_tokens=3, tenant="a")
    engine.run()
    engine.add("second", PROMPT, max_tokens=2, tenant="b")
    engine.step()
    assert "b" in engine.scheduler.stats().tenants
    assert engine.scheduler.stats().tenants["b"].prompt_tokens == 0
    engine.run()
    usage = engine.scheduler.stats().tenants
    assert (usage["a"].prompt_tokens, usage["a"].cached_tokens, usage["a"].generated_tokens) == (20, 0, 3)
    assert (usage["b"].prompt_tokens, usage["b"].cached_tokens) == (20, 16 if caching else 0)


def test_a_group_brings_its_prompt_once() -> None:
    engine = fake_engine()
    engine.add("leader", PROMPT, max_tokens=3, tenant="a")
    engine.add("follower", PROMPT, max_tokens=4, tenant="a", leader="leader")
    engine.run()
    usage = engine.scheduler.stats().tenants["a"]
    assert (usage.prompt_tokens, usage.generated_tokens) == (20, 7)


def test_what_lies_behind_a_stop_string_costs_nothing() -> None:
    engine = fake_engine(max_in_flight=3)
    engine.add("stopped", PROMPT, max_tokens=50, tenant="a")
    engine.step(5)
    assert len(engine.tokens["stopped"]) > 2
    engine.loop.finish("stopped", 2)
    engine.run()
    assert engine.scheduler.stats().tenants["a"].generated_tokens == 2


def test_a_request_that_never_ran_costs_nothing() -> None:
    engine = fake_engine(max_num_seqs=1)
    engine.add("runs", PROMPT, max_tokens=3, tenant="a")
    engine.add("waits", PROMPT, max_tokens=3, tenant="b")
    engine.step()
    engine.loop.abort("waits")
    engine.run()
    usage = engine.scheduler.stats().tenants["b"]
    assert (usage.prompt_tokens, usage.generated_tokens) == (0, 0)


def test_tokens_of_all_tenants_are_those_of_the_engine() -> None:
    engine = fake_engine()
    for index, tenant in enumerate(["a", "b", "a", ""]):
        engine.add(str(index), PROMPT[: 5 + index], max_tokens=2 + index, tenant=tenant)
    engine.run()
    stats = engine.scheduler.stats()
    assert sum(usage.prompt_tokens for usage in stats.tenants.values()) == stats.counters.prompt_tokens
    assert sum(usage.generated_tokens for usage in stats.tenants.values()) == stats.counters.generated_tokens


def test_steps_are_counted_by_the_tokens_they_ran() -> None:
    engine = fake_engine(max_num_batched_tokens=16)
    engine.add("only", PROMPT, max_tokens=3)
    engine.run()
    histogram = engine.scheduler.stats().step_tokens
    assert sum(histogram.counts) == sum(bool(plan.num_tokens) for plan in engine.plans) == 4
    assert histogram.total == len(PROMPT) + 2


@settings(max_examples=40, deadline=None)
@given(data=st.data(), caching=st.booleans(), windows=st.sampled_from([(None,), (7,), (None, 5)]), flights=st.integers(1, 3))
def test_block_seconds_of_all_tenants_are_the_blocks_in_use_times_time(
    data: Any, caching: bool, windows: tuple[int | None, ...], flights: int
) -> None:
    now = [0]
    engine = fake_engine(
        block_sizes=(4,) * len(windows),
        windows=windows,
        num_blocks=16,
        max_model_len=32,
        max_num_batched_tokens=12,
        enable_prefix_caching=caching,
        max_in_flight=flights,
        clock=lambda: now[0],
    )
    tenant_of: dict[str, str] = {}
    expected: defaultdict[str, Fraction] = defaultdict(Fraction)
    used = 0
    for index in range(data.draw(st.integers(1, 25))):
        seconds = data.draw(st.integers(0, 5))
        now[0] += seconds * NANOSECONDS
        used += seconds * engine.cache.pool.num_in_use
        holders = Counter(block for _, block in tables(engine))
        for request_id, block in tables(engine):
            expected[tenant_of[request_id]] += Fraction(seconds, holders[block])
        measured = engine.scheduler.stats().tenants
        assert sum(usage.kv_block_seconds for usage in measured.values()) == pytest.approx(used, rel=1e-9)
        assert {name: usage.kv_block_seconds for name, usage in measured.items()} == pytest.approx(
            {name: float(expected[name]) for name in measured}, rel=1e-9
        )
        action = data.draw(st.sampled_from(["add", "step", "step", "abort"]))
        if action == "add":
            tenant_of[str(index)] = data.draw(st.sampled_from(TENANTS))
            length = data.draw(st.integers(1, 20))
            leader = data.draw(st.sampled_from([None, *tenant_of]))
            engine.add(
                str(index), PROMPT[:length], max_tokens=6, tenant=tenant_of[str(index)], leader=None if leader == str(index) else leader
            )
        elif action == "step" and engine.loop.has_work():
            engine.step()
        elif action == "abort" and tenant_of:
            engine.loop.abort(data.draw(st.sampled_from(sorted(tenant_of))))
    engine.run()
    assert engine.cache.ledger.num_held == 0
