"""What a plugin's reader can build on."""

from dataclasses import dataclass
from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.config import ModelConfig
from octavo.model.foreign import ForeignFields
from octavo.model.huggingface_config import from_huggingface
from octavo.model.llama_reader import read_llama
from octavo.testing.conformance import check_config_reader


@dataclass(frozen=True, kw_only=True)
class Scaled(ModelConfig):
    branch_scale: float


VALUES: dict[str, Any] = {
    "model_type": "scaled",
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": 2,
    "dtype": "bfloat16",
    "branch_scale": 0.5,
}


def fields(**changes: Any) -> ForeignFields:
    return ForeignFields(VALUES | changes, "config.json", "model type 'scaled'")


def read_scaled(fields: ForeignFields) -> Scaled:
    return read_llama(fields, Scaled, branch_scale=fields.positive_float("branch_scale"))


def test_it_reads_what_octavo_itself_reads_of_a_llama() -> None:
    assert read_llama(fields(model_type="llama")) == from_huggingface(VALUES | {"model_type": "llama"})


def test_a_shape_of_a_plugins_own_has_its_fields_besides() -> None:
    config = check_config_reader(read_scaled, VALUES)
    assert isinstance(config, Scaled)
    assert (config.architecture, config.num_kv_heads, config.stored_dtype, config.branch_scale) == ("scaled", 2, "bfloat16", 0.5)


def test_what_is_given_goes_before_what_is_read() -> None:
    config = read_llama(fields(), architecture="other", attention_bias=True)
    assert (config.architecture, config.attention_bias, config.output_bias) == ("other", True, False)


def test_activations_are_those_that_the_model_runs() -> None:
    assert read_llama(fields(hidden_act="gelu"), activations={"gelu": "gelu"}).activation == "gelu"
    with pytest.raises(CheckpointError, match="hidden_act 'gelu' is not supported; 'silu' is"):
        read_llama(fields(hidden_act="gelu"))


@pytest.mark.parametrize(("field", "value"), [("dtype", "bfloat16"), ("torch_dtype", "torch.bfloat16")])
def test_the_stored_type_has_an_old_and_a_new_name(field: str, value: str) -> None:
    assert ForeignFields({field: value}, "config.json").stored_dtype() == "bfloat16"
    assert ForeignFields({"dtype": "float16", "torch_dtype": "bfloat16"}, "config.json").stored_dtype() == "float16"
    assert ForeignFields({}, "config.json").stored_dtype() == "float32"
    with pytest.raises(CheckpointError, match=f"{field} is 'int4', but must be one of float32, bfloat16, float16"):
        ForeignFields({field: "int4"}, "config.json").stored_dtype()
