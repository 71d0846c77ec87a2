import pytest

from octavo.testing.engine import fake_engine
from octavo.testing.model import continuation
from octavo.types import FinishReason


def test_an_unknown_request_can_be_aborted() -> None:
    assert not fake_engine().loop.abort("nobody")


@pytest.mark.parametrize("max_in_flight", [1, 2])
@pytest.mark.parametrize("steps", range(12))
def test_abort_at_every_step_gives_the_blocks_back_and_disturbs_nobody(steps: int, max_in_flight: int) -> None:
    engine = fake_engine(max_in_flight=max_in_flight)
    engine.add("a", range(50), max_tokens=6)
    engine.add("b", range(30), max_tokens=20)
    engine.step(steps)
    ended = "a" in engine.last and engine.last["a"].finish_reason is not None
    assert engine.loop.abort("a") is not ended
    assert not engine.loop.abort("a")
    so_far = list(engine.tokens["a"])
    engine.run()
    assert engine.tokens["a"] == so_far
    assert engine.tokens["b"] == continuation(range(30), 20)
    assert engine.cache.usage == 0
    assert engine.executor.device.request_ids == set()
    assert engine.loop.stats().counters.finished[FinishReason.ABORT] == (not ended)
    engine.add("c", range(50), max_tokens=6)
    engine.run()
    assert engine.tokens["c"] == continuation(range(50), 6)


def test_everything_of_an_aborted_crowd_is_free_after_one_step() -> None:
    engine = fake_engine()
    for number in range(10):
        engine.add(f"r{number}", range(number, number + 40), max_tokens=80)
    engine.step(4)
    for number in range(10):
        engine.loop.abort(f"r{number}")
    stats = engine.loop.stats()
    assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)
    engine.step()
    assert not engine.loop.has_work()


def test_an_id_can_come_again_while_a_step_of_its_former_bearer_is_under_way() -> None:
    engine = fake_engine(max_in_flight=2)
    engine.add("a", range(5), max_tokens=50)
    engine.step(3)
    engine.loop.abort("a")
    engine.add("a", range(7), max_tokens=5)
    engine.run()
    assert engine.tokens["a"] == continuation(range(7), 5)
