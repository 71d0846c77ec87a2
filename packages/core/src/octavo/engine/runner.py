"""The seam between the engine and whatever computes a step."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from octavo.config.engine import Decision, EngineConfig
from octavo.plugins.registries import Registries
from octavo.scheduler.plan import StepPlan, StepResult


@dataclass(frozen=True, kw_only=True)
class PoolSize:
    """The KV pool that a runner allocated.

    Attributes:
        num_blocks: blocks that can be handed out, the null block not counted.
        max_model_len: the configured length, or less where it was left to the engine and the pool is smaller.
        num_bytes: size of the pool.
    """

    num_blocks: int
    max_model_len: int
    num_bytes: int


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

    @abstractmethod
    def shutdown(self) -> None:
        """Release everything; calling it twice is fine."""
