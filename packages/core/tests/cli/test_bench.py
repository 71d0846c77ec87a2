import json
from pathlib import Path
from typing import Any

import pytest

from octavo.cli.throughput import measure_throughput
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
    [("{", "is not JSON"), ("[]", "list of lists"), ("[1]", "list of lists"), ("[[5000]]", "token id 5000"), ("[[]]", "no tokens")],
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
