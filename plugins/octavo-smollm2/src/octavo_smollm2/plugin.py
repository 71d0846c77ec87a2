"""The hooks of this plugin."""

from typing import TYPE_CHECKING

from octavo import hookimpl

if TYPE_CHECKING:
    from octavo.model.source import ModelSource
    from octavo.plugins.registry import Registry


@hookimpl
def octavo_register_model_sources(registry: "Registry[type[ModelSource]]") -> None:
    """Register "smollm2", which offers itself as default."""
    registry.register("smollm2", "octavo_smollm2.source:SmolLM2Source")
