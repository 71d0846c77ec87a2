from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octavo.testing.installed import write_plugin


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Install plugins from source: `install(name, source)`; they are gone after the test."""
    import sys

    monkeypatch.syspath_prepend(tmp_path)
    modules: list[str] = []

    def install_one(name: str, source: str, **more: str) -> str:
        modules.append(write_plugin(tmp_path, name, source, **more))
        monkeypatch.syspath_prepend(tmp_path)
        return modules[-1]

    yield install_one
    for module in modules:
        sys.modules.pop(module, None)
