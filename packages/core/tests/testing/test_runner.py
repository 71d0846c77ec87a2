from pathlib import Path

from octavo.config.cache import CacheConfig
from octavo.config.engine import EngineConfig
from octavo.config.load import LoadConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.engine.executor import InProcessExecutor
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.source import ModelFiles
from octavo.plugins.registries import Registries
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest, StepPlan
from octavo.testing.model import continuation
from octavo.testing.runner import FakeRunner

CONFIG = EngineConfig(
    model=ModelConfig(
        architecture="fake",
        vocab_size=50,
        hidden_size=8,
        intermediate_size=8,
        num_layers=1,
        num_heads=1,
        num_kv_heads=1,
        head_size=8,
        rms_norm_eps=1e-5,
        rope=RopeConfig(theta=1e4, dim=8),
        max_position=128,
        tie_embeddings=True,
    ),
    load=LoadConfig(
        files=ModelFiles(name="fake", format="safetensors", folder=Path(), weights=()),
        dtype="float32",
        max_model_len=128,
        max_model_len_is_explicit=True,
        use_generation_config=False,
    ),
    cache=CacheConfig(
        block_size=16, dtype="float32", num_blocks=None, memory_bytes=None, memory_utilization=None, enable_prefix_caching=True
    ),
    scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=32),
    attention_backend="none",
    runner="fake",
    sampler="none",
    device="cpu",
    seed=None,
    decisions=(),
)


def test_the_fake_runner_serves_in_process_without_files() -> None:
    executor = InProcessExecutor(FakeRunner(CONFIG, Registries()))
    assert executor.start().num_blocks == 64
    added = AddedRequest(
        request_id="a",
        epoch=0,
        token_ids=[5, 6, 7],
        num_prompt_tokens=3,
        num_computed_tokens=0,
        block_ids=[[64]],
        params=SamplingParams(temperature=0),
        ending_token_ids=[],
        seed=0,
    )
    plan = StepPlan(step_id=0, removed=[], added=[added], continued=[], num_tokens={"a": 3}, num_output_tokens={"a": 0})
    assert executor.submit(plan).result().token_ids == {"a": continuation([5, 6, 7], 1, vocab_size=50)}
    executor.shutdown()
    executor.shutdown()
