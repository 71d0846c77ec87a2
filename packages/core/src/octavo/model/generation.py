"""Defaults of sampling that a model brings in `generation_config.json`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from octavo.errors import CheckpointError, InvalidRequestError
from octavo.model.foreign import ForeignFields, read_json_object
from octavo.model.source import ModelFiles
from octavo.sampling_params import SamplingParams


@dataclass(frozen=True, kw_only=True)
class GenerationDefaults:
    """What the model's authors recommend; None where they say nothing. The names are those of `SamplingParams`."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    def apply(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Keywords for `SamplingParams`: what the user gave, and these defaults for what is left open (absent or None)."""
        recommended = {item.name: value for item in fields(self) if (value := getattr(self, item.name)) is not None}
        return recommended | {name: value for name, value in given.items() if value is not None or name not in recommended}


def load_generation_defaults(files: ModelFiles) -> GenerationDefaults:
    """Read the defaults of a model on disk; all None for GGUF and where there is no file.

    `do_sample: false` is greedy, temperature 0. Raises `CheckpointError` for values that no request could have.
    """
    if files.generation_config is None:
        return GenerationDefaults()
    source = ForeignFields(read_json_object(files.generation_config), str(files.generation_config))
    values = {item.name: source.values.get(item.name) for item in fields(GenerationDefaults)}
    if not source.boolean("do_sample", True):
        values["temperature"] = 0.0
    defaults = GenerationDefaults(**values)
    try:
        SamplingParams(**defaults.apply({}))
    except InvalidRequestError as error:
        raise CheckpointError(f"{files.generation_config}: {error}") from error
    return defaults
