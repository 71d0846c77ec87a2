import json
from pathlib import Path
from typing import Any

import pytest

from octavo.cli.latency import measure_latency
from octavo.cli.throughput import measure_throughput
from octavo.errors import RequestFailedError
from octavo.testing.llm import fake_llm
from octavo.testing.model import continuation

KEYS = {"elapsed_s", "output_tokens", "output_tokens_per_s", "dtype", "kv_cache_dtype", "threads", "cached_tokens", "first_ids"}


def test_the_last_line_is_the_measurement_as_json(octavo: Any, fake_model: tuple[str, ...], tmp_path: Path) -> None:
    prompts = [[7, 8, 9], [10, 11]]
    (tmp_path / "ids.json").write_text(json.dumps(prompts))
    done = octavo("bench", "throughput", *fake_model, "--token-ids", str(tmp_path / "ids.json"), "--output-len", "12", "--json")
    assert done.code == 0
    result = json.loads(done.out.splitlines()[-1])
    assert result.keys() >= KEYS
    assert result["output_tokens"] == 24
    assert result["output_tokens_per_s"] == pytest.approx(24 / result["elapsed_s"])
    assert (result["dtype"], result["kv_cache_dtype"]) == ("float32", "float32")
    assert result["first_ids"] == [continuation(prompt, 8, vocab_size=1000) for prompt in prompts]


def test_random_prompts_and_a_table_for_readers(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("bench", "throughput", *fake_model, "--num-prompts", "3", "--input-len", "20", "--output-len", "2")
    assert done.code == 0
    assert "prompt tokens            60 (0 from the prefix cache)" in done.out
    assert "output tokens            6" in done.out


def test_the_warm_up_leaves_nothing_in_the_prefix_cache_and_shared_beginnings_are_found() -> None:
    fake = fake_llm(num_blocks=64, max_num_batched_tokens=256)
    shared = list(range(100, 132))
    result = measure_throughput(fake.llm, [[*shared, 5], [*shared, 6], [*shared, 7]], 2)
    assert result.cached_tokens == 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "list of lists"),
        ("[1]", "list of lists"),
        ('[["a"]]', "list of lists"),
        ("[[true]]", "list of lists"),
        ("[" * 100_000, "is not JSON"),
        ("[[5000]]", "token id 5000"),
        ("[[]]", "no tokens"),
    ],
)
def test_token_ids_that_are_none_are_a_usage_error(octavo: Any, fake_model: tuple[str, ...], tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "ids.json").write_text(text)
    done = octavo("bench", "throughput", *fake_model, "--token-ids", str(tmp_path / "ids.json"))
    assert (done.code, done.out) == (2, "")
    assert said in done.err.splitlines()[-1]


def test_a_workload_over_the_context_is_refused(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("bench", "throughput", *fake_model, "--input-len", "500", "--output-len", "100")
    assert done.code == 2
    assert "over the context of 512 tokens" in done.err


def test_latency_is_total_first_token_and_between_tokens(octavo: Any, fake_model: tuple[str, ...]) -> None:
    flags = ["--batch-size", "3", "--input-len", "20", "--output-len", "5", "--num-iters", "2", "--num-iters-warmup", "1"]
    done = octavo("bench", "latency", *fake_model, *flags)
    assert done.code == 0
    header, *rows = done.out.splitlines()
    assert header.split() == ["milliseconds", "mean", "p10", "p25", "p50", "p75", "p90", "p99"]
    assert [row[:24].strip() for row in rows] == ["total", "time to first token", "between tokens"]
    result = json.loads(octavo("bench", "latency", *fake_model, *flags, "--json").out.splitlines()[-1])
    assert (result["batch_size"], result["input_len"], result["output_len"], result["num_iters"]) == (3, 20, 5, 2)
    for name in ("total", "time_to_first_token", "inter_token"):
        values = [result[name]["percentiles"][str(percent)] for percent in (10, 25, 50, 75, 90, 99)]
        assert values == sorted(values)
        assert values[0] <= result[name]["mean"] <= values[-1]
    assert result["time_to_first_token"]["mean"] < result["total"]["mean"]


def test_a_batch_is_measured_whole_and_leaves_nothing_behind() -> None:
    fake = fake_llm(num_blocks=64)
    result = measure_latency(fake.llm, batch_size=6, input_len=40, output_len=1, num_iters=2, num_iters_warmup=0)
    fake.assert_idle()
    assert result.inter_token is None
    assert fake.llm.stats().counters.generated_tokens == 12
    assert fake.llm.stats().counters.prefix_hits == 0


def test_a_failed_request_ends_the_measurement() -> None:
    fake = fake_llm(faults=lambda plan: {"1": "a row of NaN"} if plan.step_id == 2 else {})
    with pytest.raises(RequestFailedError, match="a row of NaN"):
        measure_latency(fake.llm, batch_size=2, input_len=4, output_len=9, num_iters=1, num_iters_warmup=0)
    fake.assert_idle()


def test_latency_over_the_context_is_refused(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("bench", "latency", *fake_model, "--input-len", "500", "--output-len", "100")
    assert done.code == 2
    assert "over the context of 512 tokens" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["throughput", "--input-len", "1000000000"], "over the context of 512 tokens"),
        (["throughput", "--num-prompts", "100000", "--input-len", "400", "--output-len", "1"], "40,000,000 tokens at once"),
        (["throughput", "--num-prompts", "1000000000"], "--num-prompts"),
        (["latency", "--batch-size", "100000", "--input-len", "400", "--output-len", "1"], "40,000,000 tokens at once"),
        (["latency", "--batch-size", "1000000000"], "--batch-size"),
        (["latency", "--num-iters", "1000000000"], "--num-iters"),
        (["latency", "--num-iters-warmup", "1000000000"], "--num-iters-warmup"),
    ],
)
def test_a_workload_that_cannot_be_is_refused_before_it_is_made(
    octavo: Any, fake_model: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    def make(*_: Any, **__: Any) -> None:
        raise AssertionError("prompts are made")

    monkeypatch.setattr("octavo.cli.workload.random_prompts", make)
    monkeypatch.setattr("octavo.cli.latency.random_prompts", make)
    command, *flags = arguments
    done = octavo("bench", command, *fake_model, *flags)
    assert (done.code, done.out) == (2, "")
    assert said in done.err.splitlines()[-1]


def test_a_runner_without_clocks_has_no_share_of_the_library(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("bench", "throughput", *fake_model, "--num-prompts", "2", "--input-len", "8", "--output-len", "2", "--json")
    assert done.code == 0
    assert json.loads(done.out.splitlines()[-1])["library_share"] is None


def test_a_profile_is_refused_before_anything_is_measured_where_there_are_no_clocks(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("bench", "latency", *fake_model, "--output-len", "2", "--num-iters", "1", "--profile")
    assert (done.code, done.out) == (2, "")
    assert "runner 'fake' has no clocks" in done.err.splitlines()[-1]


def test_a_trace_needs_a_profile(octavo: Any, fake_model: tuple[str, ...], tmp_path: Path) -> None:
    done = octavo("bench", "latency", *fake_model, "--profile-file", str(tmp_path / "trace.json"))
    assert done.code == 2
    assert "give both" in done.err.splitlines()[-1]
