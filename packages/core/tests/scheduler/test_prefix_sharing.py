import pytest

from octavo.testing.engine import fake_engine
from octavo.testing.model import continuation


@pytest.mark.parametrize("length", [15, 16, 17, 32, 33])
@pytest.mark.parametrize("max_in_flight", [1, 2])
def test_a_prompt_sent_twice_hits_its_full_blocks_but_never_its_last_token(length: int, max_in_flight: int) -> None:
    engine = fake_engine(max_in_flight=max_in_flight)
    for name in ("first", "second"):
        engine.add(name, range(length), max_tokens=5)
        engine.run()
        assert engine.tokens[name] == continuation(range(length), 5)
    assert engine.last["first"].num_cached_tokens == 0
    assert engine.last["second"].num_cached_tokens == (length - 1) // 16 * 16
    added = next(added for plan in engine.plans for added in plan.added if added.request_id == "second")
    assert added.num_computed_tokens < length


def test_the_next_request_of_the_same_step_hits() -> None:
    engine = fake_engine(max_num_batched_tokens=64)
    engine.add("a", range(40), max_tokens=1)
    engine.add("b", range(40), max_tokens=1)
    engine.step()
    assert engine.plans[0].num_tokens == {"a": 40, "b": 8}
    assert engine.plans[0].added[0].block_ids[0][:2] == engine.plans[0].added[1].block_ids[0][:2]


def test_a_conversation_hits_what_was_generated_before() -> None:
    engine = fake_engine()
    engine.add("turn 1", range(20), max_tokens=20)
    engine.run()
    engine.add("turn 2", [*range(20), *engine.tokens["turn 1"], 5, 6, 7], max_tokens=5)
    engine.run()
    assert engine.last["turn 2"].num_cached_tokens == 32


def test_salts_share_with_their_like_only() -> None:
    engine = fake_engine()
    cached = []
    for turn in range(2):
        for salt in (None, "A", "B"):
            engine.add(f"{salt} {turn}", range(40), max_tokens=1, cache_salt=salt)
            engine.run()
            cached.append(engine.last[f"{salt} {turn}"].num_cached_tokens)
    assert cached == [0, 0, 0, 32, 32, 32]


def test_with_the_cache_off_nothing_is_shared() -> None:
    engine = fake_engine(enable_prefix_caching=False)
    for name in "ab":
        engine.add(name, range(40), max_tokens=2)
    engine.run()
    assert [engine.last[name].num_cached_tokens for name in "ab"] == [0, 0]
    assert engine.loop.stats().counters.prefix_queries == 0


def test_queries_and_hits_are_counted_in_tokens() -> None:
    engine = fake_engine()
    for name in "ab":
        engine.add(name, range(40), max_tokens=2)
        engine.run()
    counters = engine.loop.stats().counters
    assert (counters.prefix_queries, counters.prefix_hits, counters.prompt_tokens_computed) == (80, 32, 48)


def test_resetting_the_cache_makes_the_next_request_miss() -> None:
    engine = fake_engine()
    engine.add("a", range(40), max_tokens=2)
    engine.step(2)
    assert not engine.loop.reset_prefix_cache()
    engine.run()
    assert engine.loop.reset_prefix_cache()
    engine.add("b", range(40), max_tokens=2)
    engine.run()
    assert engine.last["b"].num_cached_tokens == 0
