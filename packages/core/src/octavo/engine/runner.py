"""The seam between the engine and whatever computes a step."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from octavo.config.engine import Decision, EngineConfig
from octavo.errors import ConfigurationError
from octavo.plugins.registries import Registries
from octavo.profile.spans import SpanRecorder
from octavo.scheduler.plan import StepPlan, StepResult


@dataclass(frozen=True, kw_only=True)
class PoolSize:
    """The KV pool that a runner allocated.

    Attributes:
        num_blocks: blocks that can be handed out, the null block not counted.
        max_model_len: the configured length, or less where it was left to the engine and the pool is smaller.
        num_bytes: size of the pool.
        max_num_batched_tokens: token budget of a step, where the configuration leaves it to the runner (`SchedulerConfig.step_time_s`)
            and it is less than what is configured.
        context_scale: `SchedulerConfig.context_scale`, where that is left to the runner too.
    """

    num_blocks: int
    max_model_len: int
    num_bytes: int
    max_num_batched_tokens: int | None = None
    context_scale: int = 0


class ModelRunner(ABC):
    """One rank: holds weights, KV pool and batch state. Registered by name with `octavo_register_runners`.

    Calls come in order: `load`, `allocate_pool`, then `execute` any number of times, then `shutdown`.
    """

    def __init__(self, config: EngineConfig, registries: Registries) -> None:
        self.config = config
        self.registries = registries
        self.decisions: tuple[Decision, ...] = ()
        """What only the device's side could settle (attention backend, threads), with reasons; filled by `load`."""

    @classmethod
    @abstractmethod
    def describe(cls, registries: Registries) -> tuple[Decision, ...]:
        """What this runner would choose on this machine whatever the model, for `octavo env`. May import torch."""

    @abstractmethod
    def load(self) -> None:
        """Build the model and load its weights. Raises `CheckpointError`."""

    @abstractmethod
    def allocate_pool(self) -> PoolSize:
        """Measure the peak of the largest step, size and allocate the KV pool. Raises `ConfigurationError` where nothing fits."""

    @abstractmethod
    def execute(self, plan: StepPlan) -> StepResult:
        """Run one step. Mutates the batch state; an exception means that the step is lost and the engine with it."""

    def save_compiled(self, file: Path) -> int:  # noqa: ARG002  (a runner that compiles overrides it)
        """After `allocate_pool`: write what was compiled to a file, for `compile_artifacts`; its bytes.

        Raises `ConfigurationError` where nothing is compiled.
        """
        raise ConfigurationError(f"runner {self.config.runner!r} compiles nothing")

    def profiled(self, spans: SpanRecorder) -> AbstractContextManager[None]:  # noqa: ARG002  (a runner that has clocks overrides it)
        """A context after `allocate_pool` in which the parts of `execute` are clocked: prepare, forward with its ops, head and sample.

        Raises `ConfigurationError` where they cannot be.
        """
        raise ConfigurationError(f"runner {self.config.runner!r} has no clocks: profile a model on the runner 'torch'")

    @abstractmethod
    def shutdown(self) -> None:
        """Release everything; calling it twice is fine."""
