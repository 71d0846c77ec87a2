from pathlib import Path

import pytest

from octavo.errors import CheckpointError, ConfigurationError, ModelNotFoundError
from octavo.model.source import ModelSource, default_model_name, resolve_model
from octavo.plugins.registry import Registry


class Offered(ModelSource):
    is_default = True

    def locate(self) -> Path:
        raise ModelNotFoundError("install it")


class Plain(ModelSource):
    def locate(self) -> Path:
        return Path(__file__).parent / "nowhere.gguf"


@pytest.fixture
def sources() -> Registry[type[ModelSource]]:
    return Registry("model source")


def test_the_default_is_the_source_that_offers_itself(sources: Registry[type[ModelSource]]) -> None:
    sources.register("plain", Plain)
    sources.register("offered", Offered)
    assert default_model_name(sources) == "offered"


def test_two_defaults_are_an_error_naming_both(sources: Registry[type[ModelSource]]) -> None:
    sources.owned_by("one").register("first", Offered)
    sources.owned_by("two").register("second", Offered)
    with pytest.raises(ConfigurationError, match="'first' of plugin 'one' and 'second' of plugin 'two'"):
        default_model_name(sources)


def test_no_default_says_what_to_install(sources: Registry[type[ModelSource]]) -> None:
    with pytest.raises(ConfigurationError, match="pip install octavo-smollm2"):
        default_model_name(sources)


def test_a_registered_name_asks_its_source(sources: Registry[type[ModelSource]]) -> None:
    sources.register("plain", Plain)
    sources.register("offered", Offered)
    files = resolve_model("plain", sources=sources)
    assert (files.name, files.weights[0].name) == ("plain", "nowhere.gguf")
    with pytest.raises(ModelNotFoundError, match="install it"):
        resolve_model("offered", sources=sources)


def test_a_source_wins_over_a_folder_of_the_same_name(
    sources: Registry[type[ModelSource]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").mkdir()
    sources.register("plain", Plain)
    assert resolve_model("plain", sources=sources).format == "gguf"


def test_paths_are_taken_as_they_are(sources: Registry[type[ModelSource]], model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model_folder.parent)
    files = resolve_model("model", sources=sources)
    assert (files.name, files.folder) == ("model", model_folder)


@pytest.mark.parametrize("name", ["nosuch", "./nosuch", "/nosuch/model.gguf", "a/b/c", "../x/y", "owner/file.gguf", ""])
def test_an_unknown_name_lists_what_was_tried(
    sources: Registry[type[ModelSource]], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sources.register("plain", Plain)
    with pytest.raises(ModelNotFoundError, match=r"registered sources \(plain\).*file or folder.*hub repository"):
        resolve_model(name, sources=sources)


@pytest.mark.parametrize("name", ["a" * 5000, "x\0y", "~nobody-of-this-name/x"])
def test_what_no_path_could_be_called_is_an_unknown_name(sources: Registry[type[ModelSource]], name: str) -> None:
    with pytest.raises(ModelNotFoundError, match="no model"):
        resolve_model(name, sources=sources)


def test_a_revision_of_what_is_no_repository_is_refused(sources: Registry[type[ModelSource]], model_folder: Path) -> None:
    sources.register("plain", Plain)
    for name in ("plain", str(model_folder)):
        with pytest.raises(ConfigurationError, match="revision 'main' is for repositories of the hub"):
            resolve_model(name, revision="main", sources=sources)


def test_a_folder_that_cannot_be_listed_is_named(
    sources: Registry[type[ModelSource]], model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(CheckpointError, match=r"files of model .*model' cannot be read: .*Permission denied"):
        resolve_model(str(model_folder), sources=sources)
