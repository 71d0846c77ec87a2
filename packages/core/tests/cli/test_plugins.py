import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from octavo.cli.plugins import plugins_command
from octavo.testing.installed import write_plugin

GOOD = """
import octavo

@octavo.hookimpl
def octavo_register_scheduler_policies(registry):
    registry.register("backwards", "octavo.scheduler.policy:Priority")
"""
DANGLING = GOOD.replace("backwards", "dangling").replace("octavo.scheduler.policy:Priority", "no_such_module:Policy")


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command("plugins")(plugins_command)
    return app


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, and only the plugins good, dangling and broken allowed."""
    write_plugin(tmp_path, "cligood", GOOD, version="3.1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", "cligood")
    monkeypatch.delenv("OCTAVO_PLUGINS_BLOCK", raising=False)
    return tmp_path


def add_broken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plugin(folder, "clibroken", "raise RuntimeError('out of order')")
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", "cligood,clibroken")


def test_json_lists_plugins_with_hooks_names_and_targets(app: typer.Typer, installed: Path) -> None:
    result = CliRunner().invoke(app, ["--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    builtin, good = report["plugins"]
    assert builtin["registered"]["scheduler_policies"]["fcfs"] == "octavo.scheduler.policy:FirstComeFirstServed"
    assert (good["name"], good["distribution"], good["version"], good["error"]) == ("cligood", "octavo-cligood", "3.1", None)
    assert good["hooks"] == ["octavo_register_scheduler_policies"]
    assert good["registered"] == {"scheduler_policies": {"backwards": "octavo.scheduler.policy:Priority"}}
    assert report["failures"] is None


def test_text_names_everything_once_per_line(app: typer.Typer, installed: Path) -> None:
    lines = CliRunner().invoke(app, []).stdout.splitlines()
    assert "cligood: octavo-cligood 3.1, octavo_cligood_cligood" in lines
    assert "  scheduling policy backwards: octavo.scheduler.policy:Priority" in lines


def test_a_broken_plugin_is_listed_and_is_no_failure(app: typer.Typer, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_broken(installed, monkeypatch)
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    assert "  broken: plugin 'clibroken' (octavo-clibroken 1.0, octavo_clibroken_clibroken) does not import" in result.stdout
    assert "out of order" in result.stdout


def test_checking_fails_on_a_broken_plugin(app: typer.Typer, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(app, ["--check"]).exit_code == 0
    add_broken(installed, monkeypatch)
    assert CliRunner().invoke(app, ["--check"]).exit_code == 1


def test_checking_fails_on_a_name_that_leads_nowhere(app: typer.Typer, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plugin(installed, "clidangling", DANGLING)
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", "clidangling")
    assert CliRunner().invoke(app, []).exit_code == 0
    result = CliRunner().invoke(app, ["--check", "--json"])
    assert result.exit_code == 1
    (failure,) = json.loads(result.stdout)["failures"]
    assert (failure["registry"], failure["name"], failure["plugin"]) == ("scheduler_policies", "dangling", "clidangling")
    assert "failed: " in CliRunner().invoke(app, ["--check"]).stdout


def test_a_terminal_gets_a_table_with_the_same_names(
    app: typer.Typer, installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_broken(installed, monkeypatch)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    plugins_command(as_json=False, check=False)
    shown = capsys.readouterr().out
    assert "backwards" in shown
    assert "octavo.scheduler.policy:Priority" in shown
    assert "broken: plugin 'clibroken'" in shown
