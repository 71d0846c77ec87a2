import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from octavo.cli.env import env_command
from octavo.testing.installed import write_plugin

RUNNER = """
from octavo.config.engine import Decision
import octavo

class Runner:
    @classmethod
    def describe(cls, registries):
        {body}

@octavo.hookimpl
def octavo_register_runners(registry):
    registry.register("torch", Runner)
"""


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command("env")(env_command)
    return app


@pytest.fixture(autouse=True)
def only_the_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", "")
    monkeypatch.delenv("OCTAVO_PLUGINS_BLOCK", raising=False)


def install(folder: Path, name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plugin(folder, name, source)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", name)


def report(app: typer.Typer) -> dict[str, object]:
    result = CliRunner().invoke(app, ["--json"])
    assert result.exit_code == 0, result.output
    parsed: dict[str, object] = json.loads(result.stdout)
    return parsed


def test_the_report_has_every_part(app: typer.Typer) -> None:
    found = report(app)
    assert list(found) == ["packages", "python", "machine", "environment", "plugins", "decisions", "notes"]
    assert "octavo-core" in found["packages"]
    assert found["machine"]["num_cpus"] >= 1
    assert found["environment"]["OCTAVO_PLUGINS_ALLOW"] == ""
    assert {"device", "dtype", "max_num_batched_tokens"} <= {decision["name"] for decision in found["decisions"]}


def test_a_missing_runner_is_said_and_is_no_failure(app: typer.Typer) -> None:
    assert report(app)["notes"] == ["no runner 'torch': install octavo-models to run models"]


def test_the_runner_adds_its_decisions(app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "return (Decision(name='attention_backend', value='abacus', reason='beads are there'),)"
    install(tmp_path, "envrunner", RUNNER.format(body=body), monkeypatch)
    found = report(app)
    assert found["decisions"][-1] == {"name": "attention_backend", "value": "abacus", "reason": "beads are there"}
    assert found["notes"] == []


def test_a_runner_that_fails_is_said(app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "envfailing", RUNNER.format(body="raise OSError('no library')"), monkeypatch)
    assert report(app)["notes"] == ["runner 'torch' does not describe itself: OSError: no library"]


def test_a_runner_that_does_not_import_is_said(app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "envdangling", RUNNER.replace("Runner)", "'no_such_module:Runner')"), monkeypatch)
    (note,) = report(app)["notes"]
    assert "runner 'torch' of plugin 'envdangling' does not load" in note


def test_text_shows_sizes_and_broken_plugins_for_readers(app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "envbroken", "raise RuntimeError('out of order')", monkeypatch)
    text = CliRunner().invoke(app, []).stdout
    assert "total memory: " in text
    assert "iB" in text
    assert "envbroken: broken: " in text
