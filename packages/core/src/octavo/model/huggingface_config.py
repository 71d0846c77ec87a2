"""`config.json` of Transformers -> `ModelConfig`, for decoders of Llama's shape and those that differ from it by a little.

Fields and their defaults: https://huggingface.co/docs/transformers/model_doc/llama, and the pages of the other architectures in
`huggingface_families`. Code that a model brings is never run.
"""

from typing import Any

from octavo.model.config import ModelConfig
from octavo.model.foreign import ForeignFields
from octavo.model.huggingface_families import FAMILIES, Family
from octavo.model.llama_reader import read_llama


def from_huggingface(config: dict[str, Any], *, name: str = "config.json") -> ModelConfig:
    """Read a parsed `config.json`.

    Args:
        config: the object in the file.
        name: of the file, for messages.

    Raises:
        CheckpointError: naming the field that is missing, of a wrong type, or asks for something that Octavo does not run.
    """
    config = _with_text_config(config)
    architecture = ForeignFields(config, name).text("model_type")
    family = FAMILIES.get(architecture, Family())
    fields = ForeignFields(family.translate({**family.defaults, **config}), name, f"model type {architecture!r}")
    return family.refine(fields, read_llama(fields, activations=family.activations))


def _with_text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Models that read more than text keep what describes the decoder one level down; a field at the top goes before it."""
    nested = config.get("text_config")
    return nested | {field: value for field, value in config.items() if value is not None} if isinstance(nested, dict) else config
