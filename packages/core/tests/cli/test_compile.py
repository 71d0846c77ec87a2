from pathlib import Path
from typing import Any

import pytest

from octavo.config.step_times import FILE, StepTimes, keep_step_times
from octavo.testing.runner import FakeRunner


def test_what_a_runner_compiled_is_written(
    octavo: Any, fake_model: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = []

    def save(self: FakeRunner, file: Path) -> int:
        levels.append(self.config.compile.level)
        return file.write_bytes(b"x" * 2048)

    monkeypatch.setattr(FakeRunner, "save_compiled", save)
    done = octavo("compile", *fake_model, "-o", str(tmp_path / "file"))
    assert (done.code, done.out) == (0, f"{tmp_path / 'file'}: 2.00 KiB\n")
    assert (tmp_path / "file").stat().st_size == 2048
    octavo("compile", *fake_model, "-o", str(tmp_path / "file"), "--optimization-level", "3")
    assert levels == [2, 3]


def test_it_measures_anew_what_is_known_already(
    octavo: Any, fake_model: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keys = []

    def save(self: FakeRunner, file: Path) -> int:
        key = self.config.compile.step_times_key
        assert key is not None
        keys.append(key)
        keep_step_times(tmp_path / "octavo", key, StepTimes(written={1: 1.0}, compiled={1: 2.0}))
        return file.write_bytes(b"x")

    monkeypatch.setattr(FakeRunner, "save_compiled", save)
    for _ in range(2):
        assert octavo("compile", *fake_model, "-o", str(tmp_path / "file")).code == 0
    assert len(set(keys)) == 1
    assert len(keys) == 2
    assert (tmp_path / "octavo" / FILE).is_file()


def test_a_runner_that_compiles_nothing_says_so(octavo: Any, fake_model: tuple[str, ...], tmp_path: Path) -> None:
    done = octavo("compile", *fake_model, "-o", str(tmp_path / "file"))
    assert done.code == 2
    assert "runner 'fake' compiles nothing" in done.err
    assert not (tmp_path / "file").exists()


def test_a_folder_that_is_not_there_is_refused_before_anything_is_loaded(octavo: Any, fake_model: tuple[str, ...], tmp_path: Path) -> None:
    done = octavo("compile", *fake_model, "-o", str(tmp_path / "none" / "file"))
    assert done.code == 2
    assert "lies in a folder that does not exist" in done.err
