import dataclasses
from pathlib import Path
from typing import Any

import pytest

from octavo.config.compile import CompileConfig
from octavo.config.compile_options import settle_compile
from octavo.config.engine import Decision
from octavo.config.machine import Machine
from octavo.config.options import EngineOptions
from octavo.config.step_times import StepTimes
from octavo.errors import ConfigurationError

CPU = Machine(
    system="Linux", architecture="x86_64", cpu_model="CPU", cpu_flags=frozenset(), num_cpus=2, total_memory=1 << 34,
    available_memory=1 << 33, has_cuda=False,
)  # fmt: skip
GPU = dataclasses.replace(CPU, has_cuda=True)


def settle(machine: Machine = CPU, **options: Any) -> tuple[CompileConfig, tuple[Decision, ...]]:
    return settle_compile(EngineOptions(**options), machine, times_key="model")


@pytest.mark.parametrize(("machine", "level"), [(CPU, 0), (GPU, 2)])
def test_the_level_follows_the_device_and_says_why(machine: Machine, level: int) -> None:
    config, (decision,) = settle(machine)
    assert (config.level, config.enforce_eager) == (level, False)
    assert (decision.name, decision.value) == ("optimization_level", str(level))
    assert decision.reason


@pytest.mark.parametrize(("compiled", "level"), [(0.02, 0), (0.005, 1)])
def test_on_a_cpu_the_faster_way_is_taken_once_both_are_known_there(compiled: float, level: int) -> None:
    times = StepTimes(written={1: 0.01}, compiled={1: compiled})
    known = dataclasses.replace(CPU, step_times={"model": times})
    config, (decision,) = settle(known)
    assert (config.level, decision.value, decision.reason) == (level, str(level), str(times))
    assert settle(dataclasses.replace(CPU, step_times={"another": times}))[0].level == 0
    assert settle(dataclasses.replace(known, has_cuda=True))[0].level == 2
    assert settle(known, optimization_level=0)[0].level == 0


def test_a_runner_measures_where_it_can_and_nothing_is_known() -> None:
    known = dataclasses.replace(CPU, step_times={"model": StepTimes(written={1: 1.0}, compiled={1: 2.0})})
    assert settle(optimization_level=1)[0].step_times_key == "model"
    for config, _ in (settle(known, optimization_level=1), settle(optimization_level=3), settle(GPU), settle(compile_in_background=True)):
        assert config.step_times_key is None


@pytest.mark.parametrize("level", [0, 1, 2, 3, "1"])
def test_a_level_that_is_given_is_no_decision(level: int | str) -> None:
    config, decisions = settle(optimization_level=level)
    assert (config.level, decisions) == (int(level), ())
    assert config.compiles is (int(level) > 0)


def test_levels_say_which_graphs_are_wanted() -> None:
    graphs = [settle(GPU, optimization_level=level)[0].graphs for level in range(4)]
    assert graphs == [("piecewise", "full"), ("piecewise",), ("piecewise", "full"), ("piecewise", "full")]


def test_eager_means_neither_compiling_nor_graphs() -> None:
    config, (decision,) = settle(GPU, enforce_eager=True)
    assert (config.compiles, config.graphs, decision.reason) == (False, (), "enforce_eager")


def test_who_brings_artifacts_wants_to_compile(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    config, (decision,) = settle(compile_artifacts=str(file))
    assert (config.level, config.artifacts, decision.reason) == (2, file, "compile_artifacts is given")
    assert settle(compile_in_background=True)[0].in_background


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimization_level": 4}, "optimization_level 4 is unknown: there are 0, 1, 2, 3"),
        ({"optimization_level": -1}, "optimization_level -1 is below 0"),
        ({"optimization_level": "fast"}, "optimization_level"),
        ({"optimization_level": 1, "enforce_eager": True}, "give one of them"),
        ({"compile_artifacts": "no/such/file"}, "compile_artifacts 'no/such/file' is no file"),
        ({"compile_artifacts": __file__, "enforce_eager": True}, "compile_artifacts is of no use with enforce_eager"),
        ({"compile_in_background": True, "optimization_level": 0}, "of no use with optimization_level 0"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as problem:
        settle(**options)
    assert message in str(problem.value)
    assert "\n" not in str(problem.value)
