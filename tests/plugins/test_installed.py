"""Plugins as people get them: the example as a wheel outside the tree, and that of the overview as its page says."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEMBERS = ("packages/core", "packages/kernels", "packages/models", "plugins/octavo-example-model")


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"{command} in {cwd}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that holds the wheels of Octavo and of the plugin, and nothing of the tree."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv")
    scratch = tmp_path_factory.mktemp("outside")
    for member in MEMBERS:
        run(uv, "build", "--quiet", "--wheel", "-o", scratch / "dist", ROOT / member, cwd=ROOT)
    run(uv, "venv", "--quiet", "--python", sys.executable, "venv", cwd=scratch)
    date = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["exclude-newer"]
    run(
        *(uv, "pip", "install", "--quiet", "--python", "venv", "--exclude-newer", date),
        *("--find-links", "dist", "octavo-example-model"),
        cwd=scratch,
    )
    return scratch / "venv" / "bin"


@pytest.mark.slow
def test_the_installed_plugin_is_found_and_whole(programs: Path, tmp_path: Path) -> None:
    report = json.loads(run(programs / "octavo", "plugins", "--check", "--json", cwd=tmp_path))
    (plugin,) = [plugin for plugin in report["plugins"] if plugin["name"] == "example-model"]
    assert (plugin["distribution"], plugin["error"], report["failures"]) == ("octavo-example-model", None, [])
    assert {field: list(names) for field, names in plugin["registered"].items()} == {
        "models": ["example-gpt"],
        "config_readers": ["example-gpt"],
        "samplers": ["top-n-sigma"],
        "logits_processors": ["prompt-bias"],
        "scheduler_policies": ["least-work"],
    }


@pytest.mark.slow
def test_the_installed_architecture_generates(programs: Path, tmp_path: Path) -> None:
    run(programs / "python", "-m", "octavo_example_model.checkpoint", tmp_path / "tiny", cwd=tmp_path)
    flags = ["--num-blocks", "16", "--sampler", "top-n-sigma", "--scheduling-policy", "least-work", "--max-tokens", "6", "--json"]
    answer = json.loads(run(programs / "octavo", "generate", "--model", tmp_path / "tiny", *flags, "Hello", cwd=tmp_path))
    assert 0 < len(answer["token_ids"]) <= 6


COPIED = ("LICENSE", "README.md", "packages", "plugins", "pyproject.toml")
OVERVIEW = (ROOT / "docs" / "plugins" / "index.md").read_text()


@pytest.mark.slow
def test_a_plugin_is_installed_into_a_checkout_as_the_overview_says(tmp_path: Path) -> None:
    if shutil.which("uv") is None:
        pytest.skip("needs uv")
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tmp_path / "octavo").mkdir(exist_ok=True)
        copy(ROOT / name, tmp_path / "octavo" / name)
    for name, content in re.findall(r"^```(?:python|toml)\n# (\S+\.\w+)\n(.*?)^```", OVERVIEW, re.MULTILINE | re.DOTALL):
        file = tmp_path / "octavo-shorter" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (tmp_path / "octavo-shorter" / "octavo_shorter" / "__init__.py").touch()
    console, _ = re.findall(r"^```console\n(.*?)^```", OVERVIEW, re.MULTILINE | re.DOTALL)
    folder, said = tmp_path, ""
    for line in console.splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "))
        if program == "cd":
            folder = folder / arguments[0]
        else:
            said += run(program, *arguments, cwd=folder)
    assert "scheduling policy shorter: octavo_shorter.policy:ShorterPromptFirst" in said
    assert "6 passed" in said
