import json
from pathlib import Path

import pytest

from octavo.errors import CheckpointError
from octavo.model.foreign import ForeignFields
from octavo.testing.conformance import check_config_reader
from octavo_example_model.config import ExampleGPTConfig, read_config


def test_conforms(folder: Path) -> None:
    config = check_config_reader(read_config, json.loads((folder / "config.json").read_text()))
    assert isinstance(config, ExampleGPTConfig)
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_size) == (3, 4, 1, 16)


def test_heads_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CheckpointError, match="n_embd 65 is no multiple of 4 heads"):
        read_config(ForeignFields({"n_embd": 65, "n_head": 4}, "config.json"))
