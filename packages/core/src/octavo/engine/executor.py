"""Where a step is carried out: in this process, in others, on other machines."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Protocol

from octavo.config.engine import Decision, EngineConfig
from octavo.engine.runner import PoolSize
from octavo.errors import ConfigurationError
from octavo.plugins.registries import Registries
from octavo.profile.spans import SpanRecorder
from octavo.scheduler.plan import StepPlan, StepResult


class StepHandle(Protocol):
    """A step under way."""

    def result(self) -> StepResult:
        """Wait for the step. Raises what the runner raised, or `EngineDeadError` where a rank is lost."""
        ...


class FinishedStep:
    """The handle of a step that was over when `submit` returned."""

    def __init__(self, result: StepResult) -> None:
        self._result = result

    def result(self) -> StepResult:
        return self._result


class Executor(ABC):
    """Carries plans to every rank. Registered by name with `octavo_register_executors`.

    Calls come from one thread and in order: `prepare`, `start`, then `submit` any number of times, then `shutdown`, which may come at
    any point. After an exception nothing but `shutdown` follows.

    Args:
        config: of the engine.
        registries: of this process; `registries.runners.get(config.runner)` is the class of the runner that each rank makes.
        plugins: names of the plugins that fill these registries, for `load_plugins` in other processes.
    """

    max_in_flight: int = 1
    """How many handles may be open at once."""

    decisions: tuple[Decision, ...] = ()
    """What only the device's side could settle; filled by `start`."""

    def __init__(self, config: EngineConfig, registries: Registries, plugins: tuple[str, ...]) -> None:
        self.config = config
        self.registries = registries
        self.plugins = plugins

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Begin what takes long and can go on beside other work, such as imports. Returns at once; what goes wrong shows in `start`."""

    @abstractmethod
    def start(self) -> PoolSize:
        """Load the model on every rank and size the KV pool.

        Raises:
            ConfigurationError: nothing fits, or the runner is unknown.
            CheckpointError: bad files.
            EngineDeadError: a rank is lost.
        """

    @abstractmethod
    def submit(self, plan: StepPlan) -> StepHandle:
        """Begin a step; results come back in the order of submission."""

    def check(self) -> None:  # noqa: B027 - a rank in this process is there
        """Raise `EngineDeadError` where a rank is lost. Never waits; called now and then between two steps."""

    def profiled(self, spans: SpanRecorder) -> AbstractContextManager[None]:  # noqa: ARG002  (what runs elsewhere has clocks elsewhere)
        """A context after `start` in which the parts of every step are clocked. Raises `ConfigurationError` where they cannot be."""
        raise ConfigurationError(
            f"executor {self.config.executor!r} runs steps where no clock of this process reaches: profile with --executor inprocess"
        )

    @abstractmethod
    def shutdown(self) -> None:
        """Release everything; calling it twice is fine, and so is calling it without `start`."""
