import json
from pathlib import Path
from typing import Any

import pytest

LLAMA = {
    "model_type": "llama",
    "vocab_size": 128_256,
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def llama(tmp_path: Path, fake_plugin: str) -> str:
    (tmp_path / "llama.json").write_text(json.dumps(LLAMA))
    return str(tmp_path / "llama.json")


def test_a_configuration_of_any_name_is_planned_for(octavo: Any, llama: str) -> None:
    done = octavo("plan", llama, "--kv-cache-memory-bytes", "48GiB")
    assert (done.code, done.err) == (0, "")
    assert "\nparameters       8,030,261,248\nweights          14.96 GiB in bfloat16\n" in done.out
    assert "\nbytes a token    131,072\n" in done.out
    assert "\nKV cache size: 393,216 tokens\nMaximum concurrency for 131,072 tokens per request: 3.00x\n" in done.out
    rows = [line.split() for line in done.out.splitlines()[-2:]]
    assert [(row[0], row[-1]) for row in rows] == [("2,000", "196"), ("32,000", "12")]


def test_json_has_every_number(octavo: Any, llama: str) -> None:
    done = octavo("plan", llama, "--kv-cache-memory-bytes", "48GiB", "--kv-cache-dtype", "fp8", "--tokens", "2k", "--json")
    found = json.loads(done.out)
    assert (found["model"], found["architecture"]) == (llama, "llama")
    assert (found["bytes_per_token"], found["kv_cache_tokens"], found["kv_cache_dtype"]) == (65_536, 786_432, "fp8")
    (request,) = found["requests"]
    assert (request["tokens"], request["requests"]) == (2000, 393)


def test_memory_and_ranks_are_those_of_gpus(octavo: Any, llama: str) -> None:
    done = octavo("plan", llama, "--memory", "80GiB", "--tensor-parallel-size", "2", "--gpu-memory-utilization", "0.5", "--json")
    found = json.loads(done.out)
    assert found["bytes_per_token"] == 65_536
    taken = found["weight_bytes"] + found["activation_bytes"] + found["num_blocks"] * found["bytes_per_block"]
    assert 39 << 30 < taken <= 40 << 30


def test_a_folder_with_nothing_but_its_configuration_is_enough(octavo: Any, fake_model: tuple[str, ...]) -> None:
    folder = Path(fake_model[1])
    (folder / "model.safetensors").unlink()
    for target in ([str(folder)], [str(folder / "config.json")], ["--model", str(folder)]):
        done = octavo("plan", *target, "--num-blocks", "10", "--tokens", "100")
        assert done.code == 0
        assert "KV cache size: 160 tokens" in done.out
    assert "is reduced to 160" in done.err


def test_lengths_over_the_context_are_marked(octavo: Any, llama: str) -> None:
    done = octavo("plan", llama, "--kv-cache-memory-bytes", "48GiB", "--max-model-len", "8192")
    assert done.out.splitlines()[-1].endswith("12  (over the context of 8,192 tokens)")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--memory", "80GiB", "--num-blocks", "7"], "give one of them"),
        (["--memory", "much"], "memory 'much' is not a size"),
        (["--memory", "8GiB"], "the weights take 14.96 GiB"),
        (["--tokens", "0"], "tokens '0' has a length below 1"),
        (["--tokens", "1,,2"], "tokens '' is not a whole number"),
        (["--num-blocks", "99", "--tensor-parallel-size", "3"], "tensor_parallel_size 3"),
        (["--num-blocks", "99", "--kv-cache-dtype", "fp7"], "kv_cache_dtype 'fp7' is unknown"),
        (["--num-blocks", "99", "--max-model-len", "8192"], "max_model_len 8,192 needs"),
    ],
)
def test_what_cannot_be_planned_is_one_line_and_exit_code_2(octavo: Any, llama: str, arguments: list[str], said: str) -> None:
    done = octavo("plan", llama, *arguments)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert said in line


def test_a_model_that_is_not_there_is_a_failure(octavo: Any, fake_plugin: str) -> None:
    assert octavo("plan", "/no/such/model").code == 1
