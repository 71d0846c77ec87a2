"""Plugins that look installed, for the suites that look at installed ones."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octavo.testing.installed import write_plugin


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """`install(name, source)`: the only plugin besides the built-ins, until the test ends."""
    modules: list[str] = []

    def install_one(name: str, source: str) -> None:
        modules.append(write_plugin(tmp_path, name, source))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", name)
        monkeypatch.delenv("OCTAVO_PLUGINS_BLOCK", raising=False)

    yield install_one
    for module in modules:
        sys.modules.pop(module, None)
