"""The documentation says what is there, and its programs run."""

import re
import shlex
import sys
import types
from pathlib import Path

import pytest

from octavo.cli.main import run
from octavo.plugins.manager import hook_names

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
SERVER_PAGES = {"server.md", "operations.md", "tuning.md"}  # test_documented_server.py runs those
# The pages about plugins hold whole ones, which tests/plugins runs.
PROGRAM_PAGES = [page for page in PAGES if page.parent.name != "plugins" and page.name not in SERVER_PAGES]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_every_hook_is_documented() -> None:
    page = (ROOT / "docs" / "plugins" / "index.md").read_text()
    assert [name for name in hook_names() if f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", page.read_text()) if "://" not in target]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [page for page in PROGRAM_PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for program in blocks(page, "python"):
        name = f"documented_{page.stem}"
        module = sys.modules[name] = types.ModuleType(name)
        exec(compile(program, page.name, "exec"), module.__dict__)
    if page.name in {"README.md", "guide.md"}:
        assert "Paris" in capsys.readouterr().out


def documented_commands() -> list[str]:
    lines = [line for page in PAGES for block in blocks(page, "bash") for line in block.splitlines()]
    return sorted({line for line in lines if line.startswith("uv run octavo ") and "PATH_OR_HUB_ID" not in line and "|" not in line})


@pytest.mark.slow
@pytest.mark.parametrize("line", documented_commands())
def test_commands_succeed(line: str) -> None:
    assert run(shlex.split(line)[3:]) == 0
