import json
from typing import Any

import pytest

from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.load import LoadOutcome
from octavo_server.bench.record import RequestError
from octavo_server.bench.report import report_lines, sweep_lines
from octavo_server.bench.result import BenchmarkResult, summarize
from octavo_server.bench.slo import parse_slo

BUSY = RequestError("HTTP 503", "the queue is full")


@pytest.fixture
def result(record: Any) -> BenchmarkResult:
    records = (
        record(
            sent=0.0,
            input_tokens=10,
            output_tokens=5,
            cached_tokens=4,
            has_usage=True,
            num_events=3,
            ttft_s=0.5,
            e2e_s=2.5,
            inter_token_s=(0.7, 1.3),
        ),
        record(sent=1.0, due=0.5, input_tokens=20, output_tokens=1, num_events=1, ttft_s=1.5, e2e_s=1.5),
        record(sent=0.0, input_tokens=99, output_tokens=9, ttft_s=0.1, error=BUSY),
        record(error=BUSY),
        record(error=RequestError("timeout", "no end after 3 s")),
    )
    config = BenchmarkConfig(request_rate=2.0, service_level=parse_slo("ttft=1s"))
    return summarize(config, "tiny", LoadOutcome(records=records, elapsed_s=4.0, cpu_s=0.03, num_unfinished=0, peak_running=3))


def test_only_requests_that_succeeded_count(result: BenchmarkResult) -> None:
    assert (result.completed, result.failed) == (2, 3)
    assert (result.input_tokens, result.output_tokens, result.cached_tokens) == (30, 6, 4)
    assert (result.request_throughput, result.input_throughput, result.output_throughput) == (0.5, 7.5, 1.5)
    assert result.ttft is not None
    assert (result.ttft.mean, result.ttft.max) == (1.0, 1.5)


def test_goodput_is_what_kept_the_service_level(result: BenchmarkResult) -> None:
    assert result.goodput == 0.25


def test_tpot_is_by_token_and_itl_by_event(result: BenchmarkResult) -> None:
    assert result.tpot is not None
    assert result.tpot.mean == 0.5  # 2 s for the 4 tokens after the first; the answer of one token has none
    assert result.itl is not None
    assert (result.itl.mean, result.itl.max) == (1.0, 1.3)


def test_the_best_second_has_the_tokens_of_its_events(result: BenchmarkResult) -> None:
    # Events at 0.5, 1.2 and 2.5 with 5/3 tokens each, and one token at 2.5.
    assert result.peak_output_throughput == pytest.approx(5 / 3 + 1)


def test_errors_are_counted_by_kind_the_most_frequent_first(result: BenchmarkResult) -> None:
    assert [(error.kind, count) for error, count in result.errors] == [("HTTP 503", 2), ("timeout", 1)]


def test_the_client_says_its_own_processor_time(result: BenchmarkResult) -> None:
    assert result.cpu_us_per_token == pytest.approx(5000)
    assert result.as_dict()["client_cpu_share"] == pytest.approx(0.0075)


def test_the_object_is_json_with_the_usual_names(result: BenchmarkResult) -> None:
    found = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert found["mean_ttft_ms"] == 1000
    assert found["p99_itl_ms"] == pytest.approx(1294)
    assert found["request_goodput"] == 0.25
    assert found["total_token_throughput"] == 9.0
    assert found["max_send_delay_ms"] == 500
    assert found["errors"][0] == {"kind": "HTTP 503", "message": "the queue is full", "count": 2}
    assert {
        f"{kind}_{name}_ms" for kind in ("mean", "median", "p90", "p95", "p99", "max") for name in ("ttft", "tpot", "itl", "e2el")
    } <= set(found)


def test_the_table_is_grouped_and_aligned(result: BenchmarkResult) -> None:
    lines = report_lines(result)
    assert [line.split(" (")[0] for line in lines if line and not line.startswith(" ")] == [
        "Asked", "Throughput", "Latency", "Client", "Errors", "Notes",
    ]  # fmt: skip
    table = lines[lines.index(next(line for line in lines if line.startswith("Latency"))) :][:5]
    assert len({len(line) for line in table}) == 1
    assert table[0].split()[2:] == ["mean", "median", "p90", "p95", "p99", "max"]
    assert table[1].split()[-6:] == ["1,000.00", "1,000.00", "1,400.00", "1,450.00", "1,490.00", "1,500.00"]
    assert any("2 x HTTP 503: the queue is full" in line for line in lines)
    assert any("1 answers came without usage" in line for line in lines)


def test_a_load_without_a_single_answer_has_a_table_too() -> None:
    outcome = LoadOutcome(records=(), elapsed_s=0.0, cpu_s=0.0, num_unfinished=4, peak_running=0)
    empty = summarize(BenchmarkConfig(), "tiny", outcome)
    assert (empty.ttft, empty.goodput, empty.cpu_us_per_token) == (None, None, None)
    assert any("4 given up" in line for line in report_lines(empty))
    assert sweep_lines([empty])[-1].split()[:3] == ["inf", "0.00", "-"]
