import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from octavo.engine.folder import private_folder, socket_path, write_private
from octavo.errors import ConfigurationError


def test_a_private_folder_goes_with_its_block() -> None:
    with private_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        write_private(folder / "secret", b"x")
        assert (folder / "secret").stat().st_mode & 0o777 == 0o600
        assert {path.name for path in folder.iterdir()} == {"lock", "secret"}
    assert not folder.exists()


def test_a_folder_whose_process_was_killed_goes_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = """
import os, signal, tempfile
tempfile.tempdir = {place!r}
from octavo.engine.folder import private_folder
with private_folder():
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program.format(place=str(tmp_path))], check=False)
    (abandoned,) = tmp_path.iterdir()
    (tmp_path / "octavo-link").symlink_to(abandoned)
    strange = tmp_path / "octavo-notes"
    strange.mkdir(mode=0o700)
    with private_folder() as first, private_folder() as second:
        left = set(tmp_path.iterdir())
    assert left == {first, second, strange, tmp_path / "octavo-link"}


def test_where_the_usual_place_has_a_long_name_another_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with private_folder() as folder:
        assert not folder.is_relative_to(long)
        assert socket_path(folder, 12).parent == folder
    assert list(long.iterdir()) == []


def test_a_path_that_no_socket_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="at most 107"):
        socket_path(tmp_path / ("x" * 100), 0)


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "mine.new").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="mine"):
        write_private(tmp_path / "mine", b"x")
    assert not (tmp_path / "elsewhere").exists()
