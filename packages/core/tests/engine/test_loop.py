import pytest

from octavo.errors import EngineDeadError, InvalidRequestError
from octavo.scheduler.plan import StepPlan
from octavo.testing.engine import fake_engine


def break_down(plan: StepPlan) -> dict[str, str]:
    if plan.step_id == 2:
        raise RuntimeError("out of memory")
    return {}


def interrupt(plan: StepPlan) -> dict[str, str]:
    raise KeyboardInterrupt


def test_an_idle_loop_does_nothing() -> None:
    engine = fake_engine()
    assert not engine.loop.has_work()
    assert engine.loop.step() == []
    assert engine.plans == []


@pytest.mark.parametrize("max_in_flight", [1, 2, 3])
def test_as_many_steps_are_open_as_the_executor_takes(max_in_flight: int) -> None:
    engine = fake_engine(max_in_flight=max_in_flight)
    engine.add("a", range(5), max_tokens=50)
    engine.step()
    assert len(engine.plans) == max_in_flight
    engine.step()
    assert len(engine.plans) == max_in_flight + 1


@pytest.mark.parametrize("max_in_flight", [1, 2])
def test_an_exception_in_a_step_is_the_end_of_the_engine(max_in_flight: int) -> None:
    engine = fake_engine(faults=break_down, max_in_flight=max_in_flight)
    engine.add("a", range(5), max_tokens=50)
    with pytest.raises(EngineDeadError, match="out of memory") as caught:
        engine.step(3)
    assert isinstance(caught.value.__cause__, RuntimeError)
    for call in (engine.loop.step, engine.loop.reset_prefix_cache, lambda: engine.add("b", range(5))):
        with pytest.raises(EngineDeadError, match="out of memory"):
            call()
    assert not engine.loop.has_work()
    assert not engine.loop.abort("a")
    assert engine.loop.finish("a", 1) is None


def test_an_interrupt_inside_a_step_passes_through_and_kills_the_engine() -> None:
    engine = fake_engine(faults=interrupt)
    engine.add("a", range(5))
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    with pytest.raises(EngineDeadError):
        engine.step()


def test_a_refused_request_leaves_the_loop_alive() -> None:
    engine = fake_engine()
    with pytest.raises(InvalidRequestError):
        engine.add("a", [])
    engine.add("b", range(5), max_tokens=1)
    engine.run()
    assert len(engine.tokens["b"]) == 1


def test_the_books_are_checked_when_the_loop_becomes_idle() -> None:
    engine = fake_engine()
    engine.add("a", range(5), max_tokens=1)
    engine.step()
    engine.cache.pool.allocate(1)
    with pytest.raises(EngineDeadError, match="blocks are held by nobody"):
        engine.loop.step()
