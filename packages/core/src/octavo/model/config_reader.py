"""Readers of `config.json` that plugins bring for architectures that only they know."""

from collections.abc import Callable

from octavo.errors import PluginError
from octavo.model.config import ModelConfig
from octavo.model.foreign import ForeignFields
from octavo.plugins.registry import Registry

ConfigReader = Callable[[ForeignFields], ModelConfig]
"""Fields of a `config.json` -> the model's shape: a `ModelConfig`, or a frozen dataclass that extends it by fields of its own.

Raises `CheckpointError`, best through the getters of `ForeignFields`. Registered by `model_type` with `octavo_register_config_readers`.
"""


def read_foreign_config(fields: ForeignFields, readers: "Registry[ConfigReader]") -> ModelConfig | None:
    """What a plugin's reader makes of a `config.json`; None where no plugin has registered its `model_type`.

    Raises `PluginError` for a reader that is none or returns something else than a shape.
    """
    model_type = fields.values.get("model_type")
    if not isinstance(model_type, str) or model_type not in readers:
        return None
    reader = readers.get(model_type)
    who = f"{readers.kind} {model_type!r} of plugin {readers.owner(model_type)!r} ({readers.target(model_type)})"
    if not callable(reader):
        raise PluginError(f"{who} is no function")
    config: object = reader(ForeignFields(fields.values, fields.name, f"model type {model_type!r}"))
    if not isinstance(config, ModelConfig):
        raise PluginError(f"{who} returned a {type(config).__name__}, but must return an octavo.model.config.ModelConfig")
    return config
