from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from octavo.errors import CheckpointError, ModelNotFoundError
from octavo.model.hub import Repository, download, parse_repository

REPOSITORY = [
    "config.json",
    "tokenizer.json",
    "model.safetensors",
    "pytorch_model.bin",
    "modeling_evil.py",
    "onnx/model.safetensors",
    "README.md",
]


class FakeHub:
    """Stands for the hub's client; notes what is asked of it."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        self.names = names
        self.error: Exception | None = None
        self.asked: dict[str, Any] = {}
        self.listed: list[str | None] = []

    def list_repo_files(self, repo_id: str, *, revision: str | None) -> list[str]:
        if self.error:
            raise self.error
        self.listed.append(revision)
        return self.names

    def snapshot_download(self, repo_id: str, **options: Any) -> str:
        if self.error:
            raise self.error
        self.asked = {"repo_id": repo_id, **options}
        return str(self.folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub(tmp_path, list(REPOSITORY))
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: fake)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    return fake


def test_names_of_repositories() -> None:
    assert parse_repository("owner/name") == Repository("owner/name")
    assert parse_repository("owner/name-GGUF:q4/model-Q4_1.gguf") == Repository("owner/name-GGUF", "q4/model-Q4_1.gguf")
    for name in ("name", "a/b/c", "owner/name:weights.bin", "owner/../x", "/owner/name", "owner/name:../x.gguf", "owner/x.gguf"):
        assert parse_repository(name) is None


def test_only_needed_files_come(hub: FakeHub, tmp_path: Path) -> None:
    assert download(Repository("owner/name"), revision="v1", offline=False) == tmp_path
    assert sorted(hub.asked["allow_patterns"]) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert (hub.asked["repo_id"], hub.asked["revision"], hub.asked["local_files_only"], hub.listed) == ("owner/name", "v1", False, ["v1"])


def test_a_chosen_gguf_file_comes_alone(hub: FakeHub, tmp_path: Path) -> None:
    hub.names = ["a.gguf", "b.gguf"]
    (tmp_path / "b.gguf").write_bytes(b"")
    assert download(Repository("owner/name", "b.gguf"), revision=None, offline=False) == tmp_path / "b.gguf"
    assert hub.asked["allow_patterns"] == ["b.gguf"]


def test_a_choice_that_is_not_there_lists_what_is(hub: FakeHub) -> None:
    hub.names = ["a.gguf", "b.gguf"]
    with pytest.raises(ModelNotFoundError, match=r"its GGUF files: a\.gguf, b\.gguf"):
        download(Repository("owner/name", "c.gguf"), revision=None, offline=False)
    with pytest.raises(CheckpointError, match=r"one of them: a\.gguf, b\.gguf"):
        download(Repository("owner/name"), revision=None, offline=False)
    with pytest.raises(CheckpointError, match="split GGUF"):
        download(Repository("owner/name", "a-00001-of-00002.gguf"), revision=None, offline=False)


def test_pickles_alone_are_refused_before_anything_comes(hub: FakeHub) -> None:
    hub.names = ["config.json", "pytorch_model.bin"]
    with pytest.raises(CheckpointError, match="pickles only"):
        download(Repository("owner/name"), revision=None, offline=False)
    assert not hub.asked


def test_offline_asks_the_cache_alone(hub: FakeHub, tmp_path: Path) -> None:
    assert download(Repository("owner/name"), revision=None, offline=True) == tmp_path
    assert not hub.listed
    assert hub.asked["local_files_only"] is True


def test_offline_without_a_cached_copy_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelNotFoundError, match="'owner/name' is not in the local cache"):
        download(Repository("owner/name"), revision=None, offline=True)


def test_a_file_missing_in_the_cache_is_named(hub: FakeHub) -> None:
    with pytest.raises(CheckpointError, match=r"'q\.gguf' is not in the local cache"):
        download(Repository("owner/name", "q.gguf"), revision=None, offline=True)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.OfflineModeIsEnabled("off"), "downloads are off"),
        (errors.HFValidationError("bad"), "there is no hub repository"),
        (errors.HTTPError("no route"), "cannot be downloaded: no route"),
        (ConnectionResetError("reset"), "cannot be downloaded: reset"),
    ],
)
def test_failures_say_what_to_do(hub: FakeHub, error: Exception, message: str) -> None:
    hub.error = error
    with pytest.raises(ModelNotFoundError, match=message):
        download(Repository("owner/name"), revision=None, offline=False)


def test_without_weights_only_the_small_files_come(hub: FakeHub) -> None:
    download(Repository("owner/name"), revision=None, offline=False, load_format="dummy")
    assert sorted(hub.asked["allow_patterns"]) == ["config.json", "tokenizer.json"]


def test_without_weights_a_repository_of_one_gguf_file_comes_whole(hub: FakeHub) -> None:
    hub.names = ["model.gguf", "README.md"]
    download(Repository("owner/name"), revision=None, offline=False, load_format="dummy")
    assert hub.asked["allow_patterns"] == ["model.gguf"]
