"""What lies in `deploy/` fits the server: names of metrics and labels, commands, routes and files."""

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "octavo.json").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
SELECTOR = re.compile(r"(octavo:\w+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|on|group_left|ignoring|without) \(([^)]*)\)")
QUERY_OF_A_VARIABLE = re.compile(r"label_values\((octavo:\w+), (\w+)\)")


def dashboard_expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def rules() -> list[Any]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


EXPRESSIONS = [*dashboard_expressions(), *(rule["expr"] for rule in rules())]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_name_series_and_labels_that_exist(expression: str, exported: Any) -> None:
    selectors = SELECTOR.findall(expression)
    labels = {"instance", "job"}
    for name, matchers in selectors:
        assert name in exported.sample_labels, f"no such series: {name}"
        labels |= exported.sample_labels[name]
        named = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert named <= exported.sample_labels[name], f"{name} has not all labels of {named}"
    grouped = {label.strip() for group in GROUPING.findall(expression) for label in group.split(",") if label.strip()}
    assert grouped <= labels
    assert selectors or expression.startswith("up{")
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize("panel", [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"], ids=lambda panel: panel["title"])
def test_legends_name_labels_that_exist(panel: Any, exported: Any) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        groupings = [set(re.split(r",\s*", group)) for group in GROUPING.findall(target["expr"])]
        (name, _), *_ = SELECTOR.findall(target["expr"])
        assert shown <= (set.intersection(*groupings) if groupings else exported.sample_labels[name])


def test_counters_and_histograms_are_read_as_rates_and_gauges_are_not(exported: Any) -> None:
    for expression in EXPRESSIONS:
        for name, _ in SELECTOR.findall(expression):
            gauge = exported.types.get(name) == "gauge"
            assert gauge != bool(re.search(rf"(rate|increase)\({name}\b", expression)), expression


def test_every_metric_is_on_the_dashboard(exported: Any) -> None:
    shown = {name for expression in dashboard_expressions() for name, _ in SELECTOR.findall(expression)}
    missing = [name for name in exported.types if not any(series == name or series.startswith(f"{name}_") for series in shown)]
    assert missing == []


def test_variables_ask_for_labels_that_exist(exported: Any) -> None:
    queries = [variable["query"]["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"]
    assert queries
    for query in queries:
        (name, label), *_ = QUERY_OF_A_VARIABLE.findall(query)
        assert label in exported.sample_labels[name]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (panel["gridPos"]["x"] + column, panel["gridPos"]["y"] + line)
        for panel in panels
        for column in range(panel["gridPos"]["w"])
        for line in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) < 24


def test_alerts_say_how_grave_they_are_and_what_is_wrong() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert re.fullmatch(r"\d+[smh]", rule["for"])
        named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        assert named <= {"instance", "model_name"}


def test_prometheus_reads_the_rules_and_the_server() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert all((DEPLOY / "prometheus" / name).exists() for name in config["rule_files"])
    (job,) = config["scrape_configs"]
    host, _, port = job["static_configs"][0]["targets"][0].partition(":")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert f"{port}:{port}" in services[host]["ports"]


def test_compose_mounts_what_is_there() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"]


def test_the_image_runs_the_server_as_nobody_special_and_asks_whether_it_is_ready() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    instructions = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    last = dict(instructions)
    assert last["USER"] == "octavo"
    assert "http://127.0.0.1:8000/ready" in last["HEALTHCHECK"]
    assert json.loads(last["ENTRYPOINT"]) == ["octavo", "serve"]
    copied = [part for kind, rest in instructions if kind == "COPY" and "--from" not in rest for part in shlex.split(rest)[:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in copied} <= set(allowed)


def test_the_unit_starts_the_server_and_lets_it_end_in_peace() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "octavo.service")
    service = parser["Service"]
    assert shlex.split(service["ExecStart"])[1:3] == ["serve", "--config"]
    assert service["KillSignal"] == "SIGTERM"
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > 10
