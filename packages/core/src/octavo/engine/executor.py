"""Where a step is carried out: in this process, in others, on other machines."""

from abc import ABC, abstractmethod
from typing import Protocol

from octavo.engine.runner import ModelRunner, PoolSize
from octavo.scheduler.plan import StepPlan, StepResult


class StepHandle(Protocol):
    """A step under way."""

    def result(self) -> StepResult:
        """Wait for the step; raises what the runner raised."""
        ...


class Executor(ABC):
    """Carries plans to every rank. `max_in_flight` says how many handles may be open at once."""

    max_in_flight: int = 1

    @abstractmethod
    def start(self) -> PoolSize:
        """Load the model and size the KV pool. Raises `ConfigurationError` where nothing fits, `CheckpointError` for bad files."""

    @abstractmethod
    def submit(self, plan: StepPlan) -> StepHandle:
        """Begin a step; results come back in the order of submission."""

    @abstractmethod
    def shutdown(self) -> None:
        """Release everything; calling it twice is fine."""


class _Finished:
    def __init__(self, result: StepResult) -> None:
        self._result = result

    def result(self) -> StepResult:
        return self._result


class InProcessExecutor(Executor):
    """Runs the one rank in the caller's thread."""

    def __init__(self, runner: ModelRunner) -> None:
        self._runner = runner

    def start(self) -> PoolSize:
        self._runner.load()
        return self._runner.allocate_pool()

    def submit(self, plan: StepPlan) -> StepHandle:
        return _Finished(self._runner.execute(plan))

    def shutdown(self) -> None:
        self._runner.shutdown()
