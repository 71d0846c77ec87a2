"""Steps as written and compiled are timed in turn, kept, and leave nothing behind."""

from collections.abc import Callable, Hashable
from typing import Any

import pytest

from octavo.config.compile import CompileConfig
from octavo_models.runner import two_ways
from octavo_models.runner.two_ways import ROUNDS, time_two_ways

EAGER = CompileConfig(enforce_eager=True)


def counted(functions: dict[Hashable, Callable[..., Any]], calls: list[Hashable]) -> dict[Hashable, Callable[..., Any]]:
    """Functions that do the same and note down that they were called."""

    def count(signature: Hashable) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(signature)
            return functions[signature](*arguments)

        return call

    return {signature: count(signature) for signature in functions}


def test_both_ways_are_run_in_turn_and_nothing_is_left(make_engine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_ways, "REQUESTS", (1, 3))
    monkeypatch.setattr(two_ways, "CONTEXT", 20)
    wanted_engine, engine = make_engine(EAGER), make_engine(EAGER)
    step, calls = engine.runner._step, list[Hashable]()
    pieces = step.forward.pieces
    written, ran_compiled, run = pieces._functions, list[bool](), step.forward.run
    pieces.replace(counted(written, calls))
    step.forward.run = lambda inputs: (ran_compiled.append(pieces.are_compiled), run(inputs))[1]
    times = time_two_ways(step, max_model_len=64, block_size=8, num_groups=1)
    step.forward.run = run
    assert times is not None
    assert list(times.written) == list(times.compiled) == [1, 3]
    assert all(seconds > 0 for seconds in (*times.written.values(), *times.compiled.values()))
    assert ran_compiled == [False, True] * (2 * (1 + ROUNDS))
    assert len(set(calls)) == len(pieces.names)
    assert pieces.are_compiled
    for one in (wanted_engine, engine):
        one.add("a", list(range(5, 30)))
    assert engine.run() == wanted_engine.run()


def test_an_engine_of_tight_limits_does_not_speak_for_others(make_engine: Callable[..., Any]) -> None:
    step = make_engine(EAGER).runner._step
    assert time_two_ways(step, max_model_len=64, block_size=8, num_groups=1) is None
