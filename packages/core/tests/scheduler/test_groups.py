import pytest

from octavo.testing.engine import FakeEngine, fake_engine
from octavo.testing.model import continuation

PROMPT = list(range(100, 140))


def add_group(engine: FakeEngine, size: int = 3, *, name: str = "g", max_tokens: int = 10) -> None:
    for choice in range(size):
        leader = f"{name}0" if choice else None
        engine.add(f"{name}{choice}", PROMPT, leader=leader, temperature=1.0, seed=choice, max_tokens=max_tokens)


def expect_group(engine: FakeEngine, choices: range, *, name: str = "g", max_tokens: int = 10) -> None:
    for choice in choices:
        assert engine.tokens[f"{name}{choice}"] == continuation(PROMPT, max_tokens, seed=choice)


@pytest.mark.parametrize("enable_prefix_caching", [True, False])
def test_followers_wait_for_the_leaders_prompt_and_share_its_full_blocks(enable_prefix_caching: bool) -> None:
    engine = fake_engine(enable_prefix_caching=enable_prefix_caching)
    add_group(engine)
    engine.step()
    assert engine.plans[0].num_tokens == {"g0": 32}
    engine.step()
    assert engine.plans[1].num_tokens == {"g0": 8, "g1": 8, "g2": 8}
    tables = [engine.executor.device.block_tables(f"g{choice}")[0] for choice in range(3)]
    assert tables[0][:2] == tables[1][:2] == tables[2][:2]
    assert len({table[2] for table in tables}) == 3
    engine.run()
    expect_group(engine, range(3))
    assert len({tuple(engine.tokens[f"g{choice}"]) for choice in range(3)}) == 3


def test_with_the_cache_off_two_groups_share_nothing_with_each_other() -> None:
    engine = fake_engine(enable_prefix_caching=False, num_blocks=30, max_num_seqs=6)
    add_group(engine, 2, name="g")
    add_group(engine, 2, name="h")
    engine.run()
    expect_group(engine, range(2), name="g")
    expect_group(engine, range(2), name="h")
    assert [engine.last[name].num_cached_tokens for name in ("g0", "g1", "h0", "h1")] == [0, 32, 0, 32]


def test_a_follower_that_comes_while_the_leader_generates_shares_too() -> None:
    engine = fake_engine(enable_prefix_caching=False)
    engine.add("g0", PROMPT, max_tokens=20)
    engine.step(5)
    engine.add("g1", PROMPT, leader="g0", max_tokens=5)
    engine.run()
    assert engine.last["g1"].num_cached_tokens == 32


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("enable_prefix_caching", [True, False])
def test_followers_go_on_by_themselves_when_the_leader_is_aborted(steps: int, enable_prefix_caching: bool) -> None:
    engine = fake_engine(enable_prefix_caching=enable_prefix_caching)
    add_group(engine)
    engine.step(steps)
    engine.loop.abort("g0")
    engine.run()
    expect_group(engine, range(1, 3))


def test_a_waiting_follower_can_be_aborted() -> None:
    engine = fake_engine()
    add_group(engine)
    engine.step()
    assert engine.loop.abort("g1")
    engine.run()
    assert engine.tokens["g1"] == []
    expect_group(engine, range(0, 3, 2))


def test_a_follower_of_somebody_unknown_goes_by_itself() -> None:
    engine = fake_engine()
    engine.add("a", PROMPT, leader="gone", max_tokens=5)
    engine.run()
    assert engine.tokens["a"] == continuation(PROMPT, 5)


def test_followers_do_not_hold_up_others_while_they_wait() -> None:
    engine = fake_engine(long_prefill_token_threshold=16)
    add_group(engine)
    engine.add("other", range(10), max_tokens=5)
    engine.step()
    assert engine.plans[0].num_tokens == {"g0": 16, "other": 10}


@pytest.mark.parametrize("enable_prefix_caching", [True, False])
def test_preempted_followers_give_the_same_tokens(enable_prefix_caching: bool) -> None:
    engine = fake_engine(num_blocks=8, enable_prefix_caching=enable_prefix_caching)
    add_group(engine, 4, max_tokens=60)
    engine.run()
    assert engine.loop.stats().counters.preemptions
    expect_group(engine, range(4), max_tokens=60)
