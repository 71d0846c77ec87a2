from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from octavo.cache.spec import kv_groups
from octavo.config.cache import CacheConfig
from octavo.config.engine import EngineConfig
from octavo.config.load import LoadConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.errors import ConfigurationError
from octavo.memory import MemoryLedger, size_pool
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.source import ModelFiles
from octavo.plan.memory_plan import DeviceMemory, MemoryPlan, plan_memory

GIB = 1 << 30
LLAMA = ModelConfig(
    architecture="llama",
    vocab_size=128_256,
    hidden_size=4096,
    intermediate_size=14_336,
    num_layers=32,
    num_heads=32,
    num_kv_heads=8,
    head_size=128,
    rms_norm_eps=1e-5,
    rope=RopeConfig(theta=5e5, dim=128),
    max_position=131_072,
    tie_embeddings=False,
)
WINDOW = 1024
"""Five layers of six see this many tokens."""
GEMMA = replace(
    LLAMA,
    architecture="gemma3_text",
    num_layers=36,
    sliding_window=WINDOW,
    windowed_layers=(True,) * 5 + (False,) + ((True,) * 5 + (False,)) * 5,
)
ANYWHERE = DeviceMemory(total=1 << 60, available=1 << 60, on_cpu=True)


def config(
    model: ModelConfig = LLAMA, *, max_model_len: int | None = None, block_size: int = 16, kv_dtype: str = "bfloat16", **cache: Any
) -> EngineConfig:
    sizes = {"num_blocks": None, "memory_bytes": None, "memory_utilization": None} | cache
    return EngineConfig(
        model=model,
        load=LoadConfig(
            files=ModelFiles(name="m", format="safetensors", folder=Path(), weights=()),
            dtype="bfloat16",
            max_model_len=max_model_len or model.max_position,
            max_model_len_is_explicit=max_model_len is not None,
            use_generation_config=True,
        ),
        cache=CacheConfig(block_size=block_size, dtype=kv_dtype, enable_prefix_caching=True, **sizes),
        scheduler=SchedulerConfig(max_num_seqs=256, max_num_batched_tokens=2048),
        attention_backend="auto",
        runner="torch",
        sampler="default",
        device="cpu",
        seed=None,
        decisions=(),
    )


def plan(settings: EngineConfig, device: DeviceMemory = ANYWHERE, **more: Any) -> MemoryPlan:
    return plan_memory(settings, device, **{"tokens": (2000, 32_000), **more})


def test_48_gib_of_an_8b_model_are_393216_tokens_196_requests_of_2000_and_12_of_32000() -> None:
    found = plan(config(memory_bytes=48 * GIB))
    assert found.bytes_per_token == found.bytes_per_token_beyond_windows == 131_072
    assert (found.kv_cache_tokens, found.num_blocks) == (393_216, 24_576)
    assert [request.requests for request in found.requests] == [196, 12]
    assert [request.blocks for request in found.requests] == [125, 2000]
    assert found.requests[0].kv_bytes == 2000 * 131_072
    assert found.max_concurrency == 3.0


def test_fp8_halves_the_bytes_and_doubles_the_tokens() -> None:
    found = plan(config(memory_bytes=48 * GIB, kv_dtype="fp8"))
    assert found.bytes_per_token == 65_536
    assert found.kv_cache_tokens == 2 * 393_216
    assert [request.requests for request in found.requests] == [393, 24]


def test_ranks_share_heads_and_weights() -> None:
    whole, half = plan(config(memory_bytes=48 * GIB)), plan(config(memory_bytes=48 * GIB), tensor_parallel_size=2)
    assert half.bytes_per_token == whole.bytes_per_token // 2
    assert half.weight_bytes == whole.weight_bytes // 2
    assert half.parameters == whole.parameters
    assert plan(config(memory_bytes=48 * GIB), tensor_parallel_size=16).bytes_per_token == 131_072 // 8
    with pytest.raises(ConfigurationError, match="tensor_parallel_size 3 cannot share 32 query heads and 8 KV heads"):
        plan(config(memory_bytes=GIB), tensor_parallel_size=3)


@pytest.mark.parametrize("model", [LLAMA, GEMMA])
@pytest.mark.parametrize("sizes", [{"memory_bytes": 3 * GIB}, {"num_blocks": 5000}])
def test_the_pool_is_the_one_that_the_engine_sizes(model: ModelConfig, sizes: dict[str, int]) -> None:
    settings = config(model, block_size=32, **sizes)
    pool = size_pool(
        groups=kv_groups(model, block_size=32, dtype="bfloat16"),
        cache=settings.cache,
        max_model_len=model.max_position,
        max_model_len_is_explicit=False,
        max_num_seqs=256,
        max_step_tokens=2048,
        ledger=MemoryLedger(total=1 << 60, available=1 << 60),
        on_cpu=True,
    )
    found = plan(settings)
    assert (found.num_blocks, found.kv_cache_bytes, found.max_model_len) == (pool.num_blocks, pool.num_bytes, pool.max_model_len)


def test_windows_hold_no_more_than_they_see() -> None:
    found = plan(config(GEMMA, memory_bytes=48 * GIB), tokens=(500, 32_000))
    short, long = found.requests
    assert found.bytes_per_token == 36 * 4096
    assert found.bytes_per_token_beyond_windows == 6 * 4096
    assert short.kv_bytes >= 500 * 36 * 4096
    in_windows = 30 * 4096 * WINDOW
    assert 32_000 * 6 * 4096 + in_windows <= long.kv_bytes < 1.1 * (32_000 * 6 * 4096 + in_windows)
    everything = plan(config(replace(GEMMA, sliding_window=None), memory_bytes=48 * GIB)).requests[1]
    assert long.requests > 4 * everything.requests


def test_memory_of_a_gpu_is_shared_with_weights_activations_and_reserve() -> None:
    found = plan(config(), DeviceMemory(total=80 * GIB, available=80 * GIB, on_cpu=False))
    taken = found.weight_bytes + found.activation_bytes + found.num_blocks * found.bytes_per_block
    assert 71 * GIB < taken <= 72 * GIB
    assert found.weight_bytes == 2 * 8_030_261_248


def test_a_cpu_gives_half_of_what_weights_leave() -> None:
    device = DeviceMemory(total=64 * GIB, available=40 * GIB, on_cpu=True)
    found = plan(config(), device)
    assert found.num_blocks == (40 * GIB - found.weight_bytes) // 2 // found.bytes_per_block


def test_weights_that_do_not_fit_are_refused_with_the_numbers_unless_the_pool_is_given() -> None:
    small = DeviceMemory(total=8 * GIB, available=8 * GIB, on_cpu=False)
    with pytest.raises(ConfigurationError, match=r"weights take 14.96 GiB and 8.00 GiB are available"):
        plan(config(), small)
    assert plan(config(num_blocks=100), small).num_blocks == 100


def test_lengths_over_the_context_are_counted_and_marked() -> None:
    found = plan(config(memory_bytes=48 * GIB, max_model_len=8192))
    assert [request.fits_context for request in found.requests] == [True, False]
    assert [request.requests for request in found.requests] == [196, 12]
