"""Files of compiled pieces that do not fit are left aside with a warning that says why."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.errors import ConfigurationError
from octavo_models.compile.artifacts import MAGIC, artifact_key, load_artifacts, save_artifacts
from octavo_models.llama import LlamaModel

KEY = {"torch": "2", "device": "cpu"}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What torch is given."""
    given: list[bytes] = []

    def load(content: bytes) -> object:
        given.append(content)
        return None if content == b"refused" else object()

    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", load)
    return given


def saved(folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes = b"content") -> Path:
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: (content, None))
    assert save_artifacts(folder / "file", KEY) == len(content)
    assert [path.name for path in folder.iterdir()] == ["file"]
    return folder / "file"


def test_a_file_gives_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: list[bytes]) -> None:
    assert load_artifacts(saved(tmp_path, monkeypatch), KEY)
    assert taken == [b"content"]


def test_nothing_compiled_is_nothing_to_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: None)
    with pytest.raises(ConfigurationError, match="nothing was compiled"):
        save_artifacts(tmp_path / "file", KEY)


def damage(data: bytes, case: str) -> bytes:
    if case == "content":
        return data[:-1] + b"?"
    if case == "cut":
        return data[:-3]
    if case == "header":
        return data[: len(MAGIC)] + b"{" + data[len(MAGIC) :]
    if case == "no key":
        return MAGIC + json.dumps({"sha256": ""}).encode() + b"\n"
    if case == "no object":
        return MAGIC + b"[]\n"
    return {"empty": b"", "foreign": b"GGUF" + data, "no text": MAGIC + b"\xff\xfe\n"}[case]


@pytest.mark.parametrize("case", ["content", "cut", "header", "no key", "no object", "empty", "foreign", "no text"])
def test_a_damaged_or_foreign_file_is_left_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, taken: list[bytes], case: str
) -> None:
    file = saved(tmp_path, monkeypatch)
    file.write_bytes(damage(file.read_bytes(), case))
    with caplog.at_level(logging.WARNING):
        assert not load_artifacts(file, KEY)
    assert taken == []
    assert f"{file} do not serve, so pieces are compiled" in caplog.text


def test_a_missing_file_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not load_artifacts(tmp_path / "none", KEY)
    assert "No such file" in caplog.text


def test_a_file_of_another_key_names_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, taken: list[bytes]
) -> None:
    assert not load_artifacts(saved(tmp_path, monkeypatch), KEY | {"torch": "3"})
    assert taken == []
    assert "it was made with torch '2' instead of '3'" in caplog.text
    assert "device" not in caplog.text


def test_content_that_torch_refuses_is_left_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, taken: list[bytes]
) -> None:
    assert not load_artifacts(saved(tmp_path, monkeypatch, b"refused"), KEY)
    assert "torch does not take its content" in caplog.text


def test_the_key_holds_what_compiled_code_depends_on() -> None:
    class Llama(LlamaModel):
        def __init__(self, dtype: torch.dtype) -> None:
            self.dtype = dtype

    class Foreign(Llama):
        __module__ = "pytest"

    Llama.__module__ = LlamaModel.__module__
    settings: dict[str, Any] = {"signatures": ["a", "b"], "options": {}, "device": torch.device("cpu"), "model": Llama(torch.float32)}
    key = artifact_key(**settings)
    assert artifact_key(**settings) == key
    assert key["torch"] == torch.__version__
    assert key["dtype"] == "torch.float32"
    for change in (
        {"signatures": ["ab"]},
        {"options": {"max_autotune": True}},
        {"model": Foreign(torch.float32)},
        {"model": Llama(torch.bfloat16)},
    ):
        assert artifact_key(**(settings | change)) != key
