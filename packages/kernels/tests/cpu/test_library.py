import logging
import sys

import pytest

from octavo_kernels.cpu import library as module
from octavo_kernels.cpu.abi import ABI_VERSION
from octavo_kernels.cpu.isa import Isa, choose_isa, supported_isas


@pytest.fixture
def _unloaded():
    module.load_library.cache_clear()
    yield
    module.load_library.cache_clear()


@pytest.mark.usefixtures("_unloaded")
def test_an_absent_library_is_none_and_one_warning_with_the_remedy(monkeypatch, caplog):
    monkeypatch.setattr(module, "find_library", lambda: None)
    with caplog.at_level(logging.WARNING):
        assert module.load_library() is None
        assert module.load_library() is None
    assert len(caplog.records) == 1
    assert "uv sync --reinstall-package octavo-kernels" in caplog.text


@pytest.mark.usefixtures("_unloaded")
def test_a_library_of_another_version_counts_as_absent(library, monkeypatch, caplog):
    monkeypatch.setattr(module, "open_library", lambda path: None)
    assert module.load_library() is None
    assert "of another version" in caplog.text


def test_versions_are_compared_on_opening(library):
    path = module.find_library()
    assert module.open_library(path) is not None
    assert module.open_library(path, version=ABI_VERSION + 1) is None


def test_the_library_is_found_in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert module.find_library("native_kernels_of_this_test") is None
    folder = tmp_path / "native_kernels_of_this_test"
    folder.mkdir()
    (folder / module.FILE).touch()
    sys.path_importer_cache.clear()
    assert module.find_library("native_kernels_of_this_test") == folder / module.FILE


def test_every_host_runs_the_portable_kernels(library):
    assert supported_isas(library)[0] == Isa.PORTABLE
    assert choose_isa(library, "portable") == Isa.PORTABLE


def test_an_instruction_set_that_the_host_lacks_is_refused_with_those_it_has(library):
    with pytest.raises(ValueError, match=r"'neon'; it runs portable"):
        choose_isa(library, "neon")
