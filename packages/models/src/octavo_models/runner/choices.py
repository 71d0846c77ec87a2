"""Resolves the names of a configuration to classes, and checks what plugins brought."""

from collections.abc import Iterable
from typing import TypeVar

import torch

from octavo.config.engine import Decision
from octavo.errors import ConfigurationError, PluginError
from octavo.model.architecture import unknown_architecture
from octavo.plugins.registries import Registries
from octavo.plugins.registry import Registry
from octavo_kernels.attention import AttentionBackend, AttentionSpec
from octavo_kernels.attention.select import AUTO, EVERYWHERE, PREFERENCES, choose_attention_backend
from octavo_models.model import PiecewiseModel
from octavo_models.sampling import LogitsProcessor, Sampler

__all__ = ["AUTO", "attention_backend", "logits_processor_class", "model_class", "resolve_class", "sampler_class"]

T = TypeVar("T")

DEFAULT_SAMPLER = "default"


def model_class(registries: Registries, architecture: str) -> type[PiecewiseModel]:
    """The class of an architecture. Raises `ConfigurationError` where none is registered, `PluginError` for a wrong one."""
    if architecture not in registries.models:
        raise unknown_architecture(architecture, registries.models)
    return resolve_class(registries.models, architecture, PiecewiseModel)  # type: ignore[type-abstract]


def sampler_class(registries: Registries, name: str) -> type[Sampler]:
    """The class of a sampler; "auto" is the built-in one. Raises `ConfigurationError` or `PluginError`."""
    return resolve_class(registries.samplers, DEFAULT_SAMPLER if name == AUTO else name, Sampler)  # type: ignore[type-abstract]


def logits_processor_class(registries: Registries, name: str) -> type[LogitsProcessor]:
    """The class of a logits processor. Raises `ConfigurationError` or `PluginError`."""
    return resolve_class(registries.logits_processors, name, LogitsProcessor)  # type: ignore[type-abstract]


def attention_backend(
    registries: Registries, requested: str, specs: Iterable[AttentionSpec], *, block_size: int, dtype: torch.dtype, device: torch.device
) -> tuple[type[AttentionBackend], Decision]:
    """The class of the backend that serves all layers, and why it does. Only names that come into question are imported.

    Raises:
        ConfigurationError: the name is unknown or its backend cannot serve a layer.
        PluginError: a plugin's class is no attention backend.
    """
    registry = registries.attention_backends
    names = [name for name in PREFERENCES.get(device.type, EVERYWHERE) if name in registry]
    if requested != AUTO and requested not in names:
        names.append(requested)
    candidates = {name: resolve_class(registry, name, AttentionBackend) for name in names}  # type: ignore[type-abstract]
    name, reason = requested, ""
    for spec in specs:
        try:
            name, why = choose_attention_backend(name, candidates, spec, block_size, dtype, device)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        reason = reason or why
    return candidates[name], Decision(name="attention_backend", value=name, reason=reason)


def resolve_class(registry: Registry[object], name: str, base: type[T]) -> type[T]:
    """The class of a name. Raises `PluginError` naming the plugin where it is not a class of the kind."""
    value = registry.get(name)
    if not (isinstance(value, type) and issubclass(value, base)):
        owner, target = registry.owner(name), registry.target(name)
        raise PluginError(
            f"{registry.kind} {name!r} of plugin {owner!r} is {target!r}, which is no class of {base.__module__}.{base.__qualname__}"
        )
    return value
