"""What holds for every reader of a foreign configuration."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo.config.resolve import DTYPES
from octavo.errors import CheckpointError
from octavo.model.config import ModelConfig
from octavo.model.config_reader import ConfigReader
from octavo.model.foreign import ForeignFields

_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads", "head_size", "max_position")
_WRONG: tuple[Any, ...] = (None, "?", -1, 0, [], {"?": "?"}, True)


def check_config_reader(reader: ConfigReader, values: Mapping[str, Any]) -> ModelConfig:
    """Read a configuration, and the same with every field missing or wrong. Raises AssertionError.

    Args:
        reader: to be registered with `octavo_register_config_readers`.
        values: the content of a `config.json` that is right.

    Returns:
        The shape that was read.
    """
    given = copy.deepcopy(dict(values))
    config = reader(_fields(given))
    assert isinstance(config, ModelConfig), f"the reader returned a {type(config).__name__}, but must return a ModelConfig"
    assert given == dict(values), "the reader changed what it was given"
    assert reader(_fields(given)) == config, "reading twice gives two different shapes"
    assert type(dataclasses.replace(config, eos_token_ids=())) is type(config), "the shape is no frozen dataclass of keywords"
    _check_shape(config)
    for field in given:
        for value in _WRONG:
            _check_fault(reader, given | {field: value}, f"{field} is {value!r}")
        _check_fault(reader, {name: there for name, there in given.items() if name != field}, f"{field} is missing")
    return config


def _fields(values: dict[str, Any]) -> ForeignFields:
    return ForeignFields(values, "config.json", f"model type {values.get('model_type')!r}")


def _check_shape(config: ModelConfig) -> None:
    for field in _SIZES:
        size = getattr(config, field)
        assert isinstance(size, int), f"{field} is {size!r}, but must be an integer"
        assert size > 0, f"{field} is {size!r}, but must be above 0"
    assert config.num_heads % config.num_kv_heads == 0, f"{config.num_heads} query heads cannot share {config.num_kv_heads} KV heads"
    assert config.rope.dim <= config.head_size, f"{config.rope.dim} of {config.head_size} dimensions of a head cannot be rotated"
    assert config.rope.dim % 2 == 0, f"{config.rope.dim} dimensions cannot be rotated in pairs"
    assert config.stored_dtype in DTYPES, f"stored_dtype is {config.stored_dtype!r}, but must be one of {', '.join(DTYPES)}"
    outside = [token_id for token_id in config.eos_token_ids if not 0 <= token_id < config.vocab_size]
    assert not outside, f"eos_token_ids {outside} are no tokens of a vocabulary of {config.vocab_size}"


def _check_fault(reader: ConfigReader, values: dict[str, Any], fault: str) -> None:
    """A fault is read as a shape (the field is optional, or the value means something) or is a `CheckpointError`, and nothing else."""
    try:
        config: object = reader(_fields(values))
    except CheckpointError as error:
        if "config.json" not in str(error):
            raise AssertionError(f"{fault}: the error does not name the file: {error}") from error
    except Exception as error:
        raise AssertionError(f"{fault}: the reader raised {type(error).__name__}: {error}; it must raise CheckpointError") from error
    else:
        assert isinstance(config, ModelConfig), f"{fault}: the reader returned a {type(config).__name__}"
