"""The whole configuration of an engine; each room gets only its part."""

from collections.abc import Iterable
from dataclasses import dataclass

from octavo.config.cache import CacheConfig
from octavo.config.compile import EAGER, CompileConfig
from octavo.config.load import LoadConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.logprobs import MAX_LOGPROBS
from octavo.model.config import ModelConfig

DEFAULT_EXECUTOR = "inprocess"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How one "auto" was settled: printed by `octavo env` and in the start-up log."""

    name: str
    value: str
    reason: str


def latest_decisions(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """One a name: what was settled last, in the place of the first."""
    return tuple({decision.name: decision for decision in decisions}.values())


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Everything settled; made by `octavo.config.resolve.resolve` only.

    Attributes:
        model: the model's shape.
        load, cache, scheduler: the parts.
        attention_backend, runner, sampler, executor: names in their registries.
        cpu_isa: instruction set of the C++ kernels on a CPU, or "auto".
        device: torch's name of the device, such as "cpu" or "cuda:0".
        seed: what the seeds of requests that bring none are derived from; None: drawn anew.
        decisions: every "auto" with its reason.
        max_logprobs: most alternatives a token that a request may ask for.
        compile: whether pieces are compiled and graphs captured.
    """

    model: ModelConfig
    load: LoadConfig
    cache: CacheConfig
    scheduler: SchedulerConfig
    attention_backend: str
    runner: str
    sampler: str
    device: str
    seed: int | None
    decisions: tuple[Decision, ...]
    max_logprobs: int = MAX_LOGPROBS
    executor: str = DEFAULT_EXECUTOR
    cpu_isa: str = "auto"
    compile: CompileConfig = EAGER
