"""Says which models there are where one is asked for that there is not."""

from collections.abc import Iterator
from contextlib import contextmanager

from octavo.errors import CheckpointError, ConfigurationError, shown
from octavo.model.foreign import read_json_object
from octavo.model.gguf_metadata import read_gguf_metadata
from octavo.model.source import ModelFiles
from octavo.plugins.registry import Registry


def unknown_architecture(architecture: str, known: Registry[object]) -> ConfigurationError:
    """The refusal of an architecture that nobody registered."""
    there = ", ".join(known) or "none"
    return ConfigurationError(
        f"no model of architecture {shown(architecture)}: there are {there}; a plugin can add one with octavo_register_models, "
        f"and code that comes with a model is never run{known.left_out}"
    )


@contextmanager
def unknown_architecture_named(files: ModelFiles, known: Registry[object]) -> Iterator[None]:
    """Turn whatever is wrong with the configuration of a model into the one fault that matters, if nobody knows its architecture.

    Args:
        files: of the model.
        known: architectures; where there are none, the runner needs none, and the fault stays what it is.
    """
    try:
        yield
    except CheckpointError as error:
        architecture = _architecture(files)
        if known and architecture is not None and architecture not in known:
            raise unknown_architecture(architecture, known) from error
        raise


def _architecture(files: ModelFiles) -> str | None:
    """What a model's files call its architecture; None where they do not say, or cannot be read."""
    try:
        if files.config is None:
            name = read_gguf_metadata(files.weights[0], with_data=False).values.get("general.architecture")
        else:
            name = read_json_object(files.config).get("model_type")
    except CheckpointError:
        return None
    return name if isinstance(name, str) else None
