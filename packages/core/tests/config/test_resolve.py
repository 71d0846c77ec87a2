import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest

from octavo.config.engine import EngineConfig
from octavo.config.machine import Machine
from octavo.config.options import EngineOptions
from octavo.config.resolve import resolve
from octavo.errors import ConfigurationError
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.source import ModelFiles
from octavo.plugins.manager import load_plugins

PLAIN_CPU = Machine(
    system="Linux", architecture="x86_64", cpu_model="CPU", cpu_flags=frozenset({"avx2"}), num_cpus=2, total_memory=1 << 34,
    available_memory=1 << 33, has_cuda=False,
)  # fmt: skip
AMX_CPU = dataclasses.replace(PLAIN_CPU, cpu_flags=frozenset({"amx_bf16"}))
GPU = dataclasses.replace(PLAIN_CPU, has_cuda=True)
SAFETENSORS = ModelFiles(name="tiny", format="safetensors", folder=Path(), weights=())
GGUF = ModelFiles(name="tiny", format="gguf", folder=Path(), weights=())
MODEL = ModelConfig(
    architecture="llama", vocab_size=32, hidden_size=16, intermediate_size=32, num_layers=2, num_heads=2, num_kv_heads=1, head_size=8,
    rms_norm_eps=1e-5, rope=RopeConfig(theta=1e4, dim=8), max_position=2048, tie_embeddings=True, stored_dtype="bfloat16",
)  # fmt: skip


def settle(*, files: ModelFiles = SAFETENSORS, stored: str = "bfloat16", machine: Machine = PLAIN_CPU, **options: Any) -> EngineConfig:
    model = dataclasses.replace(MODEL, stored_dtype=stored)
    return resolve(EngineOptions(**options), files, model, machine, load_plugins(allow=()).registries)


def reason(config: EngineConfig, name: str) -> str:
    (decision,) = [decision for decision in config.decisions if decision.name == name]
    return f"{decision.value}: {decision.reason}"


def refusal(**options: Any) -> str:
    with pytest.raises(ConfigurationError) as problem:
        settle(**options)
    text = str(problem.value)
    assert "\n" not in text
    return text


def test_defaults_on_a_cpu() -> None:
    config = settle()
    assert (config.device, config.runner, config.sampler, config.attention_backend, config.seed) == (
        "cpu",
        "torch",
        "default",
        "auto",
        None,
    )
    assert (config.cache.block_size, config.cache.dtype, config.cache.enable_prefix_caching) == (16, "bfloat16", True)
    assert (config.cache.num_blocks, config.cache.memory_bytes, config.cache.memory_utilization) == (None, None, None)
    assert (config.scheduler.max_num_seqs, config.scheduler.max_num_batched_tokens) == (256, 2048)
    assert (config.scheduler.long_prefill_token_threshold, config.scheduler.policy) == (0, "fcfs")
    assert (config.load.max_model_len, config.load.max_model_len_is_explicit, config.load.use_generation_config) == (2048, False, True)


def test_every_auto_has_a_reason() -> None:
    names = [decision.name for decision in settle().decisions]
    assert sorted(names) == sorted(
        [
            "device",
            "dtype",
            "max_model_len",
            "block_size",
            "kv_cache_dtype",
            "max_num_batched_tokens",
            "max_num_seqs",
            "runner",
            "sampler",
            "executor",
            "optimization_level",
        ]
    )
    assert all(decision.reason for decision in settle().decisions)


def test_what_the_user_says_is_no_decision() -> None:
    config = settle(
        dtype="float32", block_size=32, max_num_seqs=4, max_num_batched_tokens="2k", max_model_len="1k", kv_cache_dtype="float32"
    )
    assert {decision.name for decision in config.decisions} == {"device", "optimization_level", "runner", "sampler", "executor"}
    assert config.scheduler.max_num_batched_tokens == 2000
    assert (config.load.max_model_len, config.load.max_model_len_is_explicit) == (1000, True)


def test_a_gpu_changes_device_and_budget() -> None:
    config = settle(machine=GPU)
    assert (config.device, config.scheduler.max_num_batched_tokens) == ("cuda:0", 8192)


@pytest.mark.parametrize("stored", ["bfloat16", "float16", "float32"])
def test_safetensors_keep_their_type(stored: str) -> None:
    config = settle(stored=stored)
    assert (config.load.dtype, config.cache.dtype) == (stored, stored)
    assert reason(config, "dtype") == f"{stored}: as stored"


@pytest.mark.parametrize(("machine", "dtype"), [(PLAIN_CPU, "float32"), (AMX_CPU, "bfloat16"), (GPU, "bfloat16")])
def test_gguf_takes_bfloat16_where_the_machine_has_it(machine: Machine, dtype: str) -> None:
    config = settle(files=GGUF, stored="quantized", machine=machine)
    assert config.load.dtype == dtype
    assert "GGUF" in reason(config, "dtype")


def test_float16_on_a_bfloat16_model_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert settle(dtype="float16").load.dtype == "float16"
    assert "stored in bfloat16" in caplog.text


@pytest.mark.parametrize("block_size", [8, 16, 24, 128, 256, "32"])
def test_every_multiple_of_8_is_a_block_size(block_size: int | str) -> None:
    assert settle(block_size=block_size).cache.block_size == int(block_size)


@pytest.mark.parametrize("block_size", [0, 4, 12, 264, -8, "x", 8.0])
def test_other_block_sizes_are_refused(block_size: object) -> None:
    assert f"block_size {block_size!r}" in refusal(block_size=block_size)


def test_the_limit_left_to_us_gives_way() -> None:
    fewer = settle(max_num_batched_tokens=32)
    assert fewer.scheduler.max_num_seqs == 32
    assert reason(fewer, "max_num_seqs") == "32: no more than max_num_batched_tokens"
    more = settle(max_num_seqs=5000)
    assert more.scheduler.max_num_batched_tokens == 5000
    assert reason(more, "max_num_batched_tokens") == "5000: a token for each of max_num_seqs"


def test_two_limits_that_contradict_each_other_are_refused() -> None:
    assert "max_num_seqs 64 is over max_num_batched_tokens 32" in refusal(max_num_seqs=64, max_num_batched_tokens=32)


def test_a_length_over_the_models_own_is_refused_naming_both() -> None:
    assert refusal(max_model_len="4k").startswith("max_model_len 4,000 is over the model's own 2,048: give 2,048 or less")
    assert settle(max_model_len=2048).load.max_model_len_is_explicit


def test_a_model_that_longrope_stretches_keeps_to_its_original_length_unless_more_is_asked_for() -> None:
    rope = RopeConfig(theta=1e4, dim=8, kind="longrope", original_max_position=256)
    model = dataclasses.replace(MODEL, rope=rope)
    registries = load_plugins(allow=()).registries
    config = resolve(EngineOptions(), SAFETENSORS, model, PLAIN_CPU, registries)
    assert config.load.max_model_len == 256
    assert reason(config, "max_model_len") == "256: before it is stretched to 2,048; less where the KV pool is smaller"
    assert resolve(EngineOptions(max_model_len=2048), SAFETENSORS, model, PLAIN_CPU, registries).load.max_model_len == 2048


def test_the_length_may_be_left_to_us_by_name() -> None:
    assert not settle(max_model_len="auto").load.max_model_len_is_explicit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float8"}, "dtype 'float8' is unknown: there are auto, float32, bfloat16, float16"),
        ({"dtype": 16}, "dtype 16 is unknown"),
        ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype 'fp8' is unknown: there are auto, float32, bfloat16, float16"),
        ({"load_format": "onnx"}, "load_format 'onnx' is unknown: there are auto, safetensors, gguf"),
        ({"load_format": "gguf"}, "load_format 'gguf' does not match 'tiny', whose files are safetensors"),
        ({"generation_config": "vllm"}, "generation_config 'vllm' is unknown: there are auto, none"),
        ({"stored": "float8_e4m3"}, "dtype 'auto' cannot follow the stored type 'float8_e4m3': give one of float32, bfloat16, float16"),
        ({"max_model_len": 0}, "max_model_len 0 is below 1"),
        ({"max_model_len": ["8"]}, "max_model_len ['8'] is not a whole number"),
        ({"max_num_seqs": "abc"}, "max_num_seqs 'abc' is not a whole number"),
        ({"max_num_seqs": 0}, "max_num_seqs 0 is below 1"),
        ({"max_num_seqs": True}, "max_num_seqs True is not a whole number"),
        ({"max_num_seqs": None}, "max_num_seqs None is not a whole number"),
        ({"max_num_batched_tokens": "-1"}, "max_num_batched_tokens '-1' is below 1"),
        ({"max_num_batched_tokens": 0.5}, "max_num_batched_tokens 0.5 is not a whole number"),
        ({"num_blocks": 0}, "num_blocks 0 is below 1"),
        ({"kv_cache_memory_bytes": "0GiB"}, "kv_cache_memory_bytes '0GiB' is below 1 byte"),
        ({"kv_cache_memory_bytes": "lots"}, "kv_cache_memory_bytes 'lots' is not a size"),
        ({"num_blocks": 8, "kv_cache_memory_bytes": "1GiB"}, "num_blocks 8 and kv_cache_memory_bytes '1GiB' both size the pool"),
        ({"memory_utilization": 0}, "memory_utilization 0 is not a number above 0 and at most 1"),
        ({"memory_utilization": 1.01}, "memory_utilization 1.01 is not"),
        ({"memory_utilization": float("nan")}, "memory_utilization nan is not"),
        ({"memory_utilization": "half"}, "memory_utilization 'half' is not"),
        ({"enable_prefix_caching": "yes"}, "enable_prefix_caching 'yes' is neither true nor false"),
        ({"long_prefill_token_threshold": -1}, "long_prefill_token_threshold -1 is below 0"),
        ({"seed": "x"}, "seed 'x' is not a whole number"),
        ({"max_logprobs": -1}, "max_logprobs -1 is below 0: give 0 or more"),
        ({"scheduling_policy": "lifo"}, "unknown scheduling policy 'lifo': there are fcfs, priority"),
        ({"scheduling_policy": None}, "scheduling_policy None is not a name: there are fcfs, priority"),
        ({"cpu_isa": "mmx"}, "cpu_isa 'mmx'"),
        ({"attention_backend": "magic"}, "unknown attention backend 'magic': there are none"),
        ({"runner": "magic"}, "unknown runner 'magic'"),
        ({"sampler": "magic"}, "unknown sampler 'magic'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_value_and_the_limit(options: dict[str, Any], message: str) -> None:
    assert message in refusal(**options)


def test_resolving_is_pure() -> None:
    assert settle(seed=7) == settle(seed=7)


def test_how_many_log_probabilities_are_given_is_an_option() -> None:
    assert [settle(**given).max_logprobs for given in ({}, {"max_logprobs": 0}, {"max_logprobs": 50})] == [20, 0, 50]
