"""From the options about compiling to what runs, with reasons."""

from pathlib import Path

from octavo.config.checks import check_bool, check_count
from octavo.config.compile import LEVELS, CompileConfig
from octavo.config.defaults import decide_level
from octavo.config.engine import Decision
from octavo.config.machine import Machine
from octavo.config.options import EngineOptions
from octavo.config.step_times import StepTimes
from octavo.errors import ConfigurationError

_AUTO = "auto"
_LIKE_AUTO = 2
"""The highest level that compiles pieces as "auto" does."""


def settle_compile(options: EngineOptions, machine: Machine, *, times_key: str) -> tuple[CompileConfig, tuple[Decision, ...]]:
    """What runs, and how its "auto" was settled.

    Args:
        options: as typed.
        machine: that the engine is to run on.
        times_key: of the model among the `step_times` of a machine without a GPU.

    Raises `ConfigurationError` for a level that does not exist, and for options that contradict each other.
    """
    eager = check_bool("enforce_eager", options.enforce_eager)
    in_background = check_bool("compile_in_background", options.compile_in_background)
    wishes = [name for name, value in (("compile_artifacts", options.compile_artifacts), ("compile_in_background", in_background)) if value]
    times = machine.step_times.get(times_key)
    level, decisions = _level(options.optimization_level, machine, times, enforce_eager=eager, wishes=wishes)
    artifacts = None if options.compile_artifacts is None else _existing(Path(options.compile_artifacts))
    config = CompileConfig(
        level=level,
        enforce_eager=eager,
        in_background=in_background,
        artifacts=artifacts,
        step_times_key=None if machine.has_cuda or in_background or times is not None or level > _LIKE_AUTO else times_key,
    )
    if wishes and not config.compiles:
        cause = "enforce_eager" if eager else "optimization_level 0"
        raise ConfigurationError(f"{wishes[0]} is of no use with {cause}, which compiles nothing: leave one of them out")
    return config, decisions


def _existing(artifacts: Path) -> Path:
    if not artifacts.is_file():
        raise ConfigurationError(f"compile_artifacts {str(artifacts)!r} is no file: make it with `octavo compile`, or leave it out")
    return artifacts


def _level(
    option: object, machine: Machine, times: StepTimes | None, *, enforce_eager: bool, wishes: list[str]
) -> tuple[int, tuple[Decision, ...]]:
    if option == _AUTO:
        if enforce_eager:
            decision = Decision(name="optimization_level", value="0", reason="enforce_eager")
        elif wishes:
            decision = Decision(name="optimization_level", value="2", reason=f"{wishes[0]} is given")
        else:
            decision = decide_level(machine, times)
        return int(decision.value), (decision,)
    level = check_count("optimization_level", option, minimum=0)
    if level not in LEVELS:
        raise ConfigurationError(f"optimization_level {level} is unknown: there are {', '.join(map(str, LEVELS))}")
    if enforce_eager and level > 0:
        raise ConfigurationError(f"optimization_level {level} compiles and enforce_eager forbids it: give one of them")
    return level, ()
