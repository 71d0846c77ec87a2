"""From the options about compiling to what runs, with reasons."""

from pathlib import Path

from octavo.config.checks import check_bool, check_count
from octavo.config.compile import LEVELS, CompileConfig
from octavo.config.defaults import decide_level
from octavo.config.engine import Decision
from octavo.config.machine import Machine
from octavo.config.options import EngineOptions
from octavo.errors import ConfigurationError

_AUTO = "auto"


def settle_compile(options: EngineOptions, machine: Machine) -> tuple[CompileConfig, tuple[Decision, ...]]:
    """What runs, and how its "auto" was settled.

    Raises `ConfigurationError` for a level that does not exist, and for options that contradict each other.
    """
    eager = check_bool("enforce_eager", options.enforce_eager)
    in_background = check_bool("compile_in_background", options.compile_in_background)
    wishes = [name for name, value in (("compile_artifacts", options.compile_artifacts), ("compile_in_background", in_background)) if value]
    level, decisions = _level(options.optimization_level, machine, enforce_eager=eager, wishes=wishes)
    artifacts = None if options.compile_artifacts is None else Path(options.compile_artifacts)
    config = CompileConfig(level=level, enforce_eager=eager, in_background=in_background, artifacts=artifacts)
    if wishes and not config.compiles:
        cause = "enforce_eager" if eager else "optimization_level 0"
        raise ConfigurationError(f"{wishes[0]} is of no use with {cause}, which compiles nothing: leave one of them out")
    return config, decisions


def _level(option: object, machine: Machine, *, enforce_eager: bool, wishes: list[str]) -> tuple[int, tuple[Decision, ...]]:
    if option == _AUTO:
        if enforce_eager:
            decision = Decision(name="optimization_level", value="0", reason="enforce_eager")
        elif wishes:
            decision = Decision(name="optimization_level", value="2", reason=f"{wishes[0]} is given")
        else:
            decision = decide_level(machine)
        return int(decision.value), (decision,)
    level = check_count("optimization_level", option, minimum=0)
    if level not in LEVELS:
        raise ConfigurationError(f"optimization_level {level} is unknown: there are {', '.join(map(str, LEVELS))}")
    if enforce_eager and level > 0:
        raise ConfigurationError(f"optimization_level {level} compiles and enforce_eager forbids it: give one of them")
    return level, ()
