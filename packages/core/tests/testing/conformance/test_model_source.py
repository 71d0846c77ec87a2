import json
from pathlib import Path

import pytest

from octavo.errors import ModelNotFoundError
from octavo.model.source import ModelSource
from octavo.testing.conformance import check_missing_model, check_model_source
from octavo.testing.llm import word_backend

CONFIG = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 512,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    word_backend(["a"]).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return tmp_path


def source_at(place: object) -> type[ModelSource]:
    class Source(ModelSource):
        def locate(self) -> Path:
            if isinstance(place, Exception):
                raise place
            return place  # type: ignore[return-value]

    return Source


def test_a_model_that_is_there_passes(folder: Path) -> None:
    assert check_model_source(source_at(folder)).architecture == "llama"


def test_a_place_that_is_not_there_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="must raise ModelNotFoundError"):
        check_model_source(source_at(tmp_path / "nowhere"))


def test_a_place_that_is_no_path_is_found(folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"pathlib\.Path"):
        check_model_source(source_at(str(folder)))


def test_what_extends_nothing_is_found() -> None:
    with pytest.raises(AssertionError, match="does not extend"):
        check_model_source(Path)  # type: ignore[arg-type]


def test_a_missing_model_that_says_what_to_install_passes() -> None:
    check_missing_model(source_at(ModelNotFoundError("install the weights with `pip install weights`")))


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        (ModelNotFoundError(""), "does not say"),
        (ModelNotFoundError("a\nb"), "several lines"),
        (Path("/nowhere"), "must raise ModelNotFoundError"),
    ],
)
def test_a_missing_model_that_is_not_reported_is_found(place: object, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_missing_model(source_at(place))
