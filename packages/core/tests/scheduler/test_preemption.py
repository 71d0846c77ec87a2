import pytest

from octavo.scheduler.policy import Priority
from octavo.testing.engine import FakeEngine, fake_engine
from octavo.testing.model import continuation


@pytest.mark.parametrize("enable_prefix_caching", [True, False])
@pytest.mark.parametrize("max_in_flight", [1, 2])
def test_every_request_gives_what_it_gives_with_a_large_pool(enable_prefix_caching: bool, max_in_flight: int) -> None:
    engine = fake_engine(max_in_flight=max_in_flight, enable_prefix_caching=enable_prefix_caching)
    prompts = {name: [position + shift for position in range(20)] for shift, name in enumerate("abcd")}
    for name, prompt in prompts.items():
        engine.add(name, prompt, max_tokens=80)
    engine.run()
    assert engine.loop.stats().counters.preemptions > 1
    for name, prompt in prompts.items():
        assert engine.tokens[name] == continuation(prompt, 80)
    times = [engine.last[name].times for name in prompts]
    assert sum(entry.num_preemptions for entry in times if entry) == engine.loop.stats().counters.preemptions


def grow_until_preempted(engine: FakeEngine) -> None:
    for _ in range(200):
        if engine.loop.stats().counters.preemptions:
            return
        engine.step()
    raise AssertionError("nobody was preempted")


def test_the_last_come_gives_way_and_that_step_lets_nobody_in() -> None:
    engine = fake_engine(num_blocks=8)
    for name in "abc":
        engine.add(name, range(ord(name), ord(name) + 20), max_tokens=60)
    grow_until_preempted(engine)
    plan = engine.plans[-1]
    assert plan.removed == ["c"]
    assert plan.added == []
    assert set(plan.num_tokens) == {"a", "b"}


def test_the_least_urgent_gives_way_even_if_it_came_first() -> None:
    engine = fake_engine(num_blocks=8, policy=Priority())
    for name, priority in (("a", 2), ("b", 0), ("c", 1)):
        engine.add(name, range(ord(name), ord(name) + 20), max_tokens=60, priority=priority)
    grow_until_preempted(engine)
    assert engine.plans[-1].removed == ["a"]


def test_a_preempted_request_comes_back_with_all_its_tokens_before_later_ones() -> None:
    engine = fake_engine(num_blocks=6)
    for name in "abcd":
        engine.add(name, range(ord(name), ord(name) + 20), max_tokens=60)
    grow_until_preempted(engine)
    victim = engine.plans[-1].removed[0]
    so_far = list(engine.tokens[victim])
    engine.run()
    back = next(added for plan in engine.plans for added in plan.added if added.epoch == 1)
    assert back.request_id == victim
    assert back.token_ids == [*range(ord(victim), ord(victim) + 20), *so_far]
    assert back.num_prompt_tokens == 20
    first_time = [added.request_id for plan in engine.plans for added in plan.added if added.epoch == 0]
    assert first_time == ["a", "b", "c", "d"]


def test_cached_tokens_are_reported_as_of_the_first_admission() -> None:
    engine = fake_engine(num_blocks=6)
    for name in "abc":
        engine.add(name, range(ord(name), ord(name) + 20), max_tokens=60)
    engine.run()
    resumed = [added for plan in engine.plans for added in plan.added if added.epoch]
    assert any(added.num_computed_tokens for added in resumed)
    assert [engine.last[name].num_cached_tokens for name in "abc"] == [0, 0, 0]
    assert engine.loop.stats().counters.prefix_hits == 0


def test_sampling_goes_on_where_it_was_after_a_preemption() -> None:
    engine = fake_engine(num_blocks=6, vocab_size=50)
    for seed, name in enumerate("abc"):
        engine.add(name, range(20), max_tokens=60, min_tokens=40, temperature=1.0, seed=seed, ignore_eos=False)
    engine.run()
    assert engine.loop.stats().counters.preemptions
    for seed, name in enumerate("abc"):
        assert engine.tokens[name] == continuation(range(20), 60, vocab_size=50, seed=seed, min_tokens=40, ending={2})
