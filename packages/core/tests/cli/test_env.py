import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from octavo.cli.env import env_command
from octavo.config.step_times import StepTimes, keep_step_times
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

SOURCE = """
from pathlib import Path
from octavo.model.source import ModelSource
import octavo

class Source(ModelSource):
    is_default = True

    def locate(self):
        return Path({folder!r})

@octavo.hookimpl
def octavo_register_model_sources(registry):
    registry.register("mine", Source)
"""
CONFIG = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "float32",
}


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
    assert list(found) == ["packages", "python", "machine", "environment", "plugins", "model", "decisions", "notes"]
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


def test_the_decisions_are_those_of_the_model_that_is_named(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    result = CliRunner().invoke(app, ["--json", "--model", str(tmp_path)])
    found = json.loads(result.stdout)
    decisions = {decision["name"]: decision["value"] for decision in found["decisions"]}
    assert found["model"] == str(tmp_path)
    assert (decisions["dtype"], decisions["max_model_len"], decisions["load_format"]) == ("float32", "512", "safetensors")
    assert {"block_size", "kv_cache_dtype", "max_num_seqs", "runner", "sampler", "kv_cache_memory_bytes"} <= set(decisions)
    assert all(decision["reason"] for decision in found["decisions"])


def test_both_ways_of_a_step_are_shown_once_they_were_measured(app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = StepTimes(written={1: 0.0129}, compiled={1: 0.0118})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("octavo.config.resolve.step_times_key", lambda *_, **__: "known")
    keep_step_times(tmp_path / "octavo", "known", times)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    found = json.loads(CliRunner().invoke(app, ["--json", "--model", str(tmp_path)]).stdout)
    (level,) = [decision for decision in found["decisions"] if decision["name"] == "optimization_level"]
    assert (level["value"], level["reason"]) == ("1", str(times))
    assert "step_times" not in found["machine"]


def test_a_default_model_is_taken_where_none_is_named(app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    install(tmp_path, "envsource", SOURCE.format(folder=str(tmp_path)), monkeypatch)
    found = report(app)
    assert found["model"] == "mine"
    assert "max_model_len" in {decision["name"] for decision in found["decisions"]}


def test_a_model_that_is_not_there_is_said_and_the_machine_is_shown(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--json", "--model", "/no/such/model"])
    found = json.loads(result.stdout)
    assert found["notes"][0].startswith("no model '/no/such/model'")
    assert "max_num_batched_tokens" in {decision["name"] for decision in found["decisions"]}
