"""The contract with plugins: every hook, when it is called and what it may register.

A plugin is a module named by an entry point of group "octavo" whose functions carry `octavo.hookimpl` (or any
`pluggy.HookimplMarker("octavo")`). All hooks run once in every process at start-up, before anything is built; they only
register names, import nothing heavy and touch no device. A value is the thing itself or, better, "module:Name", imported
where the name is chosen.
"""

from typing import TYPE_CHECKING

import pluggy

from octavo.plugins.registry import Registry

if TYPE_CHECKING:
    import typer

    from octavo.engine.executor import Executor
    from octavo.engine.runner import ModelRunner
    from octavo.model.config_reader import ConfigReader
    from octavo.model.source import ModelSource
    from octavo.scheduler.policy import SchedulerPolicy

PROJECT = "octavo"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def octavo_register_models(registry: Registry[object]) -> None:
    """Architecture name -> class of `octavo_models.model.PiecewiseModel`. Resolved in the process that runs the model."""


@hookspec
def octavo_register_config_readers(registry: "Registry[ConfigReader]") -> None:
    """`model_type` of a `config.json` -> function of `octavo.model.config_reader.ConfigReader`, for an architecture of one's own.

    Resolved where the model's files are read, in every process that needs its shape; imports no torch.
    """


@hookspec
def octavo_register_model_sources(registry: "Registry[type[ModelSource]]") -> None:
    """Model name -> class of `octavo.model.source.ModelSource`. Resolved where a user names the model, or names none."""


@hookspec
def octavo_register_attention_backends(registry: Registry[object]) -> None:
    """Backend name -> class of `octavo_kernels.attention.AttentionBackend`. Resolved in the process that runs the model."""


@hookspec
def octavo_register_runners(registry: "Registry[type[ModelRunner]]") -> None:
    """Runner name -> class of `octavo.engine.runner.ModelRunner`. Resolved in the process that runs the model."""


@hookspec
def octavo_register_executors(registry: "Registry[type[Executor]]") -> None:
    """Executor name -> class of `octavo.engine.executor.Executor`. Resolved in the engine's process."""


@hookspec
def octavo_register_samplers(registry: Registry[object]) -> None:
    """Sampler name -> class of `octavo_models.sampling.Sampler`. Resolved in the process that runs the model."""


@hookspec
def octavo_register_logits_processors(registry: Registry[object]) -> None:
    """Processor name -> class of `octavo_models.sampling.LogitsProcessor`. Resolved in the process that runs the model, when a request
    asks for it; names that nobody registered are refused before."""


@hookspec
def octavo_register_scheduler_policies(registry: "Registry[type[SchedulerPolicy]]") -> None:
    """Policy name -> class of `octavo.scheduler.policy.SchedulerPolicy`. Resolved in the engine's process."""


@hookspec
def octavo_register_commands(registry: "Registry[typer.Typer]") -> None:
    """Command name -> typer application or function, shown as `octavo NAME`; "bench NAME" is shown as `octavo bench NAME`. Resolved when
    the command is called."""
