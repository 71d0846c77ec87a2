import pytest

from octavo.engine.multiprocess import MultiprocessExecutor
from octavo.errors import ConfigurationError
from octavo.plugins.registries import Registries
from octavo.profile.parts import Part
from octavo.profile.steps import StepKind, StepProfile
from octavo.testing.engine import FakeEngine, fake_engine
from octavo.testing.llm import fake_llm


@pytest.fixture
def profiled() -> tuple[FakeEngine, StepProfile]:
    """Two requests that have run under the clocks of the loop alone: a prompt each, then four more tokens."""
    engine, profile = fake_engine(), StepProfile()
    with profile.clock(engine.loop, "_advance", engine.scheduler):
        engine.add("a", range(10, 20), max_tokens=5)
        engine.add("b", range(20, 25), max_tokens=5)
        engine.run()
    return engine, profile


def test_steps_that_run_prompts_are_told_from_those_that_do_not(profiled: tuple[FakeEngine, StepProfile]) -> None:
    _, profile = profiled
    assert {kind: totals.num_steps for kind, totals in profile.totals.items()} == {StepKind.PREFILL: 1, StepKind.DECODE: 4}


def test_parts_and_what_lies_between_add_up_to_the_step(profiled: tuple[FakeEngine, StepProfile]) -> None:
    _, profile = profiled
    for totals in profile.totals.values():
        means = totals.means()
        assert {Part.SCHEDULE, Part.UPDATE, Part.STEP, Part.BETWEEN} == means.keys()
        assert sum(means.values()) == pytest.approx(2 * means[Part.STEP])
        assert all(seconds > 0 for seconds in means.values())


def test_nothing_is_clocked_any_more_afterwards(profiled: tuple[FakeEngine, StepProfile]) -> None:
    engine, profile = profiled
    before = len(profile.spans.spans)
    engine.add("c", range(10, 20), max_tokens=5)
    engine.run()
    assert len(profile.spans.spans) == before


def test_readers_see_every_part_and_programs_its_seconds(profiled: tuple[FakeEngine, StepProfile]) -> None:
    _, profile = profiled
    header, *rows = profile.table()
    assert header.split() == ["milliseconds", "a", "step", "decode", "(4", "steps)", "prefill", "(1", "steps)"]
    names = [row[:36].strip() for row in rows]
    assert names == [
        "schedule",
        "prepare",
        "forward: linear",
        "forward: attention",
        "forward: norm, rotary, activation",
        "forward: head",
        "sample",
        "update",
        "Python between",
        "step",
    ]
    assert {len(row) for row in rows} == {len(header)}
    told = profile.as_dict()["decode"]
    assert told["num_steps"] == 4
    assert told["mean_s"] == {part.value: value for part, value in profile.totals[StepKind.DECODE].means().items()}


def test_an_executor_of_other_processes_says_how_to_profile() -> None:
    executor = MultiprocessExecutor(fake_llm().llm.engine.config, Registries(), ())
    with pytest.raises(ConfigurationError, match="--executor inprocess"):
        executor.profiled(StepProfile().spans)
