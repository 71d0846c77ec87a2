import json
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import CheckpointError
from octavo.model.folder import inspect_path
from octavo.model.generation import GenerationDefaults, load_generation_defaults
from octavo.sampling_params import SamplingParams


def load(folder: Path, values: dict[str, Any]) -> GenerationDefaults:
    (folder / "generation_config.json").write_text(json.dumps(values))
    return load_generation_defaults(inspect_path(folder, name="m"))


def test_defaults_are_read_and_unknown_fields_left(model_folder: Path) -> None:
    defaults = load(
        model_folder, {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": None, "max_length": 4096, "eos_token_id": 2}
    )
    assert defaults == GenerationDefaults(temperature=0.6, top_p=0.9)


def test_no_sampling_is_temperature_zero(model_folder: Path) -> None:
    assert load(model_folder, {"do_sample": False, "temperature": 0.6}).temperature == 0.0


def test_no_file_means_no_defaults(model_folder: Path) -> None:
    assert load_generation_defaults(inspect_path(model_folder, name="m")) == GenerationDefaults()


def test_what_the_user_gives_wins() -> None:
    defaults = GenerationDefaults(temperature=0.6, top_k=50)
    keywords = defaults.apply({"temperature": 1.2, "top_k": None, "max_tokens": None, "seed": 3})
    assert keywords == {"temperature": 1.2, "top_k": 50, "max_tokens": None, "seed": 3}
    assert SamplingParams(**keywords).top_k == 50


@pytest.mark.parametrize("values", [{"temperature": -1}, {"top_p": "high"}, {"repetition_penalty": 0}, {"do_sample": "no"}])
def test_values_that_no_request_could_have_are_refused(model_folder: Path, values: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match=f"generation_config.*{next(iter(values))}"):
        load(model_folder, values)
