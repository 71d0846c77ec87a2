from octavo.scheduler.policy import FirstComeFirstServed, Priority
from octavo.testing.engine import FakeEngine, fake_engine
from octavo.testing.model import continuation


def tokens_per_step(engine: FakeEngine, request_id: str) -> list[int]:
    return [plan.num_tokens.get(request_id, 0) for plan in engine.plans]


def test_a_long_prompt_is_cut_to_the_budget_and_samples_at_its_end_only() -> None:
    engine = fake_engine()
    engine.add("a", range(100), max_tokens=2)
    engine.run()
    assert tokens_per_step(engine, "a") == [32, 32, 32, 4, 1, 0]
    assert [plan.num_output_tokens for plan in engine.plans] == [{}, {}, {}, {"a": 0}, {"a": 1}, {}]
    assert engine.tokens["a"] == continuation(range(100), 2)


def test_a_running_request_gains_a_token_in_every_step_while_a_long_prompt_comes_in() -> None:
    engine = fake_engine(num_blocks=60, max_model_len=512)
    engine.add("a", range(5), max_tokens=40)
    engine.step()
    engine.add("b", range(400), max_tokens=5)
    while not engine.tokens["b"]:
        assert "a" in {output.request_id for output in engine.step()}
        assert engine.plans[-1].total_tokens <= 32
    assert set(tokens_per_step(engine, "b")) == {0, 31, 400 % 31}


def test_a_more_urgent_long_prompt_does_not_stop_the_running_ones() -> None:
    engine = fake_engine(num_blocks=60, max_model_len=512, policy=Priority())
    engine.add("a", range(5), max_tokens=40)
    engine.step()
    engine.add("b", range(400), max_tokens=5, priority=-1)
    while not engine.tokens["b"]:
        assert "a" in {output.request_id for output in engine.step()}


def test_a_short_prompt_behind_a_long_one_is_answered_first_where_chunks_are_limited() -> None:
    engine = fake_engine(num_blocks=60, max_model_len=512, long_prefill_token_threshold=16)
    engine.add("long", range(400), max_tokens=5)
    engine.add("short", range(10), max_tokens=5)
    engine.step()
    assert engine.tokens["short"]
    assert tokens_per_step(engine, "long") == [16]
    engine.run()
    assert max(tokens_per_step(engine, "long")) == 16


def test_no_more_requests_run_than_max_num_seqs() -> None:
    engine = fake_engine(max_num_seqs=2)
    for name in "abc":
        engine.add(name, range(3), max_tokens=3)
    engine.step()
    assert (engine.loop.stats().running, engine.loop.stats().waiting) == (2, 1)
    engine.run()
    assert all(engine.tokens[name] == continuation(range(3), 3) for name in "abc")


def test_first_come_is_first_served() -> None:
    engine = fake_engine(max_num_seqs=1, policy=FirstComeFirstServed())
    for name, priority in (("a", 5), ("b", 0), ("c", -5)):
        engine.add(name, range(3), max_tokens=1, priority=priority)
    engine.run()
    assert [added.request_id for plan in engine.plans for added in plan.added] == ["a", "b", "c"]


def test_lower_priorities_go_first_and_equal_ones_by_arrival() -> None:
    engine = fake_engine(max_num_seqs=1, policy=Priority())
    for name, priority in (("a", 5), ("b", 0), ("c", -5), ("d", 0)):
        engine.add(name, range(3), max_tokens=1, priority=priority)
    engine.run()
    assert [added.request_id for plan in engine.plans for added in plan.added] == ["c", "b", "d", "a"]


def test_when_all_is_done_one_plan_without_tokens_lets_the_runner_forget() -> None:
    engine = fake_engine()
    engine.add("a", range(3), max_tokens=1)
    assert engine.step()[0].finish_reason is not None
    assert engine.loop.has_work()
    assert engine.step() == []
    assert (engine.plans[-1].total_tokens, engine.plans[-1].removed) == (0, ["a"])
    assert not engine.loop.has_work()
    assert engine.scheduler.schedule() is None


def test_a_request_that_does_not_fit_is_looked_up_again_only_when_blocks_come_back() -> None:
    engine = fake_engine(num_blocks=8)
    engine.add("a", range(60), max_tokens=30)
    engine.add("b", range(100, 180), max_tokens=5)
    engine.step(3)
    lookups = []
    find_cached = engine.cache.find_cached
    engine.cache.find_cached = lambda request: lookups.append(request.request_id) or find_cached(request)  # type: ignore[method-assign,func-returns-value]
    while not engine.last["a"].finish_reason:
        engine.step()
    assert lookups == []
    engine.run()
    assert engine.tokens["b"] == continuation(range(100, 180), 5)
    assert lookups == ["b"]
