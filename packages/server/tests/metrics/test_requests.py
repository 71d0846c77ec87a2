import subprocess
import sys
from pathlib import Path

import pytest

from octavo.errors import ConfigurationError
from octavo_server.metrics.requests import RequestMetrics

SERVE_TWO_REQUESTS = """
import sys
from pathlib import Path
from octavo import SamplingParams
from octavo.env import read_environment, share_metrics
share_metrics(sys.argv[1])
from octavo.types import FinishReason
from octavo_server.metrics.requests import RequestMetrics
metrics = RequestMetrics(folder=read_environment().metrics_folder)
for _ in range(2):
    with metrics.request("someone", "m") as observation:
        observation.queued(10, SamplingParams(max_tokens=5))
        for _ in range(3):
            observation.tokens(1)
        observation.finished(FinishReason.STOP)
if len(sys.argv) > 2:
    for metric in metrics.collect():
        for sample in metric.samples:
            print(sample.name, sample.labels.get("finished_reason", sample.labels.get("le", "")), sample.value)
"""


def test_processes_with_a_folder_add_up(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVE_TWO_REQUESTS, str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    printed = subprocess.run([*command, "print"], check=True, timeout=60, capture_output=True, text=True).stdout.splitlines()
    assert "octavo:request_success_total stop 4.0" in printed
    assert "octavo:tenant_requests_total stop 4.0" in printed
    assert "octavo:request_prompt_tokens_sum  40.0" in printed
    assert "octavo:request_prompt_tokens_bucket 10.0 4.0" in printed
    assert "octavo:inter_token_latency_seconds_count  8.0" in printed


def test_many_gaps_are_passed_on_without_a_flush(metrics: RequestMetrics) -> None:
    series = metrics.open_model("m")
    for _ in range(300):
        series.gaps.observe(0.015)
    (count,) = (
        sample.value
        for metric in metrics.collect()
        for sample in metric.samples
        if sample.name == "octavo:inter_token_latency_seconds_count"
    )
    assert count == 256


@pytest.mark.parametrize("prefix", ["vllm:", "", "a_b:"])
def test_a_prefix_stands_before_every_name(prefix: str) -> None:
    metrics = RequestMetrics(prefix=prefix)
    metrics.open_model("m")
    assert all(metric.name.startswith(prefix) for metric in metrics.collect())


@pytest.mark.parametrize("prefix", ["1", "a-b", "ö", " ", 'a"'])
def test_a_prefix_of_which_no_name_can_be_made_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="metrics-prefix"):
        RequestMetrics(prefix=prefix)


def test_two_sets_of_metrics_share_nothing() -> None:
    assert RequestMetrics().open_model("m") is not RequestMetrics().open_model("m")
