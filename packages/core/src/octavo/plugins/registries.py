"""All registries of a process, one field a hook."""

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from octavo.plugins.registry import Registry

if TYPE_CHECKING:
    import typer

    from octavo.engine.executor import Executor
    from octavo.engine.runner import ModelRunner
    from octavo.model.config_reader import ConfigReader
    from octavo.model.source import ModelSource
    from octavo.scheduler.policy import SchedulerPolicy


@dataclass(frozen=True)
class Registries:
    """What plugins filled at start-up. Torch-side values are `object` here and checked by the taker on use.

    Attributes:
        models: architecture -> class of `octavo_models.model.PiecewiseModel`.
        config_readers: `model_type` -> `ConfigReader` (function).
        model_sources: name -> `ModelSource` (class).
        attention_backends: name -> class of `octavo_kernels.attention.AttentionBackend`.
        runners: name -> `ModelRunner` (class).
        executors: name -> `Executor` (class).
        samplers: name -> class of `octavo_models.sampling.Sampler`.
        logits_processors: name -> class of `octavo_models.sampling.LogitsProcessor`.
        scheduler_policies: name -> `SchedulerPolicy` (class).
        commands: name -> a typer application or a function for one command; "GROUP NAME" belongs to a group of Octavo's, such as `bench`.
    """

    models: Registry[object] = field(default_factory=lambda: Registry("model architecture"))
    config_readers: "Registry[ConfigReader]" = field(default_factory=lambda: Registry("configuration reader"))
    model_sources: "Registry[type[ModelSource]]" = field(default_factory=lambda: Registry("model source"))
    attention_backends: Registry[object] = field(default_factory=lambda: Registry("attention backend"))
    runners: "Registry[type[ModelRunner]]" = field(default_factory=lambda: Registry("runner"))
    executors: "Registry[type[Executor]]" = field(default_factory=lambda: Registry("executor"))
    samplers: Registry[object] = field(default_factory=lambda: Registry("sampler"))
    logits_processors: Registry[object] = field(default_factory=lambda: Registry("logits processor"))
    scheduler_policies: "Registry[type[SchedulerPolicy]]" = field(default_factory=lambda: Registry("scheduling policy"))
    commands: "Registry[typer.Typer]" = field(default_factory=lambda: Registry("command"))

    def all(self) -> dict[str, Registry[object]]:
        """Field name to registry."""
        return {item.name: getattr(self, item.name) for item in fields(self)}
