"""Every hook has its page in docs/plugins, and the plugin of every page works: it is installed, and its own tests run."""

import dataclasses
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import pytest

from octavo.model.config import ModelConfig
from octavo.model.foreign import ForeignFields
from octavo.plugins import hookspecs
from octavo.plugins.manager import hook_names
from octavo_models import layers
from octavo_models.sampling import SamplingBatch

FOLDER = Path(__file__).parents[2] / "docs" / "plugins"
PAGES = sorted(FOLDER.glob("*.md"))
SECTIONS = ["When it is called", "What it registers", "A worked plugin", "How it is tested", "Common errors"]
_FILE = re.compile(r"^```(?:python|toml)\n# (\S+\.\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def page_of(hook: str) -> Path:
    return FOLDER / f"{hook.removeprefix('octavo_register_').replace('_', '-')}.md"


def files_of(page: Path) -> dict[str, str]:
    """Path inside the plugin's project -> content of the file, as the page shows them."""
    return dict(_FILE.findall(page.read_text()))


@dataclass(frozen=True)
class Outcome:
    """Tests of one page's plugin: how many ran, and what those that failed say."""

    num_tests: int
    failures: list[str]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The tests of all pages, run at once in one fresh interpreter in which the plugins of all pages are installed; by test module."""
    site = tmp_path_factory.mktemp("site")
    for page in PAGES:
        install(site, files_of(page))
    (site / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    report = site / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider", f"--junitxml={report}", "tests"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OCTAVO_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(site), *(entry for entry in sys.path if entry)])
    done = subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert report.exists(), done.stdout + done.stderr
    return read_report(report)


def install(site: Path, files: dict[str, str]) -> None:
    """Write a project's files, and the metadata that an installer would write."""
    for name, content in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        assert not path.exists() or name == "pyproject.toml", f"two pages have a file {name}"
        path.write_text(content)
    project = tomllib.loads(files["pyproject.toml"])["project"]
    metadata = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = "\n".join(f"{name} = {module}" for name, module in project["entry-points"]["octavo"].items())
    (metadata / "entry_points.txt").write_text(f"[octavo]\n{points}\n")


def read_report(report: Path) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").split(".")[-1] or case.get("name", "")
        known = outcomes.get(module, Outcome(0, []))
        failures = [f"{case.get('name')}: {problem.text}" for kind in ("failure", "error") for problem in case.findall(kind)]
        outcomes[module] = Outcome(known.num_tests + 1, known.failures + failures)
    return outcomes


@pytest.mark.parametrize("hook", hook_names())
def test_every_hook_has_a_page_with_all_sections(hook: str) -> None:
    text = page_of(hook).read_text()
    assert text.startswith(f"# `{hook}`\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert f"def {hook}(registry)" in text
    assert getattr(hookspecs, hook).__doc__


@pytest.mark.parametrize("hook", hook_names())
def test_the_overview_leads_to_every_page(hook: str) -> None:
    assert f"[`{hook}`]({page_of(hook).name})" in (FOLDER / "index.md").read_text()


def test_there_is_no_page_without_a_hook() -> None:
    assert set(PAGES) == {FOLDER / "index.md", *map(page_of, hook_names())}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_plugin_of_a_page_passes_its_own_tests(page: Path, outcomes: dict[str, Outcome]) -> None:
    (test,) = [name for name in files_of(page) if name.startswith("tests/")]
    outcome = outcomes[Path(test).stem]
    assert outcome.failures == []
    assert outcome.num_tests > 1


def getters() -> list[str]:
    return [name for name, value in vars(ForeignFields).items() if callable(value) and not name.startswith("_")]


TABLES = {
    "models": [*layers.__all__, "Target", "NameTable", "AttentionSpec", "gate_up", "down", "router", "expert_gate_up", "expert_down"],
    "config-readers": [*(field.name for field in dataclasses.fields(ModelConfig)), *getters()],
    "samplers": [field.name for field in dataclasses.fields(SamplingBatch)],
}
UNTOLD = {"SINGLE", "ParallelGroup", "LinearMethod", "UnquantizedLinear", "FeedForward"}
"""Of layers: what models of plugins have no use for yet."""


@pytest.mark.parametrize("page", TABLES)
def test_tables_of_a_page_are_complete(page: str) -> None:
    rows = [line for line in (FOLDER / f"{page}.md").read_text().splitlines() if line.startswith("|")]
    assert [name for name in TABLES[page] if name not in UNTOLD and not any(re.search(rf"[`.]{name}\b", row) for row in rows)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_a_project_that_can_be_built(page: Path) -> None:
    files = files_of(page)
    project = tomllib.loads(files["pyproject.toml"])
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {name.split("/")[0] for name in files if "/" in name} == {*packages, "tests"}
    for module in project["project"]["entry-points"]["octavo"].values():
        assert f"{module.replace('.', '/')}.py" in files
