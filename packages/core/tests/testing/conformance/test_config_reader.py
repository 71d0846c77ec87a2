from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.foreign import ForeignFields
from octavo.model.huggingface_config import from_huggingface
from octavo.testing.conformance import check_config_reader

VALUES = {
    "model_type": "llama",
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
    "torch_dtype": "bfloat16",
}


@dataclass(frozen=True, kw_only=True)
class OwnConfig(ModelConfig):
    depth: int


def read_own(fields: ForeignFields) -> OwnConfig:
    return OwnConfig(
        architecture="own",
        vocab_size=320,
        hidden_size=64,
        intermediate_size=128,
        num_layers=fields.positive_int("depth"),
        num_heads=4,
        num_kv_heads=2,
        head_size=16,
        rms_norm_eps=1e-5,
        rope=RopeConfig(theta=1e4, dim=16),
        max_position=512,
        tie_embeddings=False,
        depth=fields.positive_int("depth"),
    )


def test_a_reader_with_fields_of_its_own_passes() -> None:
    assert check_config_reader(read_own, {"model_type": "own", "depth": 3}).num_layers == 3


def test_the_built_in_reader_passes() -> None:
    def read(fields: ForeignFields) -> ModelConfig:
        return from_huggingface(dict(fields.values), name=fields.name)

    assert check_config_reader(read, VALUES).stored_dtype == "bfloat16"


def change_input(fields: ForeignFields) -> ModelConfig:
    fields.values.pop("depth", None)  # type: ignore[attr-defined]
    return replace(read_own(ForeignFields({"depth": 3}, "config.json")))


FAULTY: dict[str, tuple[Callable[[ForeignFields], Any], str]] = {
    "no shape": (lambda fields: fields.values, "must return a ModelConfig"),
    "bare look-up": (lambda fields: replace(read_own(ForeignFields({"depth": 3}, "")), depth=fields.values["depth"]), "raised KeyError"),
    "odd heads": (lambda fields: replace(read_own(fields), num_kv_heads=3), "cannot share 3 KV heads"),
    "long rotation": (lambda fields: replace(read_own(fields), rope=RopeConfig(theta=1.0, dim=18)), "cannot be rotated"),
    "foreign end": (lambda fields: replace(read_own(fields), eos_token_ids=(320,)), "no tokens of a vocabulary of 320"),
    "changed input": (change_input, "changed what it was given"),
}


@pytest.mark.parametrize(("reader", "fault"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_reader_is_found(reader: Callable[[ForeignFields], Any], fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_config_reader(reader, {"model_type": "own", "depth": 3})
