"""What this package registers: names only, so that loading it costs no import of torch."""

from typing import TYPE_CHECKING

from octavo import hookimpl
from octavo.plugins.registry import Registry

if TYPE_CHECKING:
    from octavo.engine.runner import ModelRunner


@hookimpl
def octavo_register_models(registry: Registry[object]) -> None:
    """Architectures by the `model_type` of their configuration."""
    for architecture in ("llama", "mistral"):
        registry.register(architecture, "octavo_models.llama:LlamaModel")
    for architecture in ("gemma3", "gemma3_text"):
        registry.register(architecture, "octavo_models.gemma3:Gemma3Model")
    registry.register("phi3", "octavo_models.phi3:Phi3Model")
    registry.register("qwen2", "octavo_models.qwen2:Qwen2Model")
    registry.register("qwen3", "octavo_models.qwen3:Qwen3Model")
    registry.register("qwen3_moe", "octavo_models.qwen3_moe:Qwen3MoeModel")


@hookimpl
def octavo_register_runners(registry: "Registry[type[ModelRunner]]") -> None:
    """The runner that drives models with torch."""
    registry.register("torch", "octavo_models.runner.runner:TorchModelRunner")


@hookimpl
def octavo_register_samplers(registry: Registry[object]) -> None:
    """The sampler that every parameter of a request is made for."""
    registry.register("default", "octavo_models.sampling.default:DefaultSampler")


@hookimpl
def octavo_register_logits_processors(registry: Registry[object]) -> None:
    """The processors that requests may ask for by name."""
    registry.register("no_repeat_ngram", "octavo_models.sampling.no_repeat_ngram:NoRepeatNgram")
