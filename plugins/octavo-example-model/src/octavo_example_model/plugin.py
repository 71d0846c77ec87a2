"""The hooks of this plugin: names only, so that loading it imports no torch."""

from typing import TYPE_CHECKING

from octavo import hookimpl

if TYPE_CHECKING:
    from octavo.model.config_reader import ConfigReader
    from octavo.plugins.registry import Registry
    from octavo.scheduler.policy import SchedulerPolicy


@hookimpl
def octavo_register_models(registry: "Registry[object]") -> None:
    registry.register("example-gpt", "octavo_example_model.model:ExampleGPT")


@hookimpl
def octavo_register_config_readers(registry: "Registry[ConfigReader]") -> None:
    registry.register("example-gpt", "octavo_example_model.config:read_config")


@hookimpl
def octavo_register_samplers(registry: "Registry[object]") -> None:
    registry.register("top-n-sigma", "octavo_example_model.sampler:TopNSigmaSampler")


@hookimpl
def octavo_register_logits_processors(registry: "Registry[object]") -> None:
    registry.register("prompt-bias", "octavo_example_model.processor:PromptBias")


@hookimpl
def octavo_register_scheduler_policies(registry: "Registry[type[SchedulerPolicy]]") -> None:
    registry.register("least-work", "octavo_example_model.policy:LeastWorkFirst")
