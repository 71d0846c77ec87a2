"""The configuration of an engine on a fake runner."""

from pathlib import Path

from octavo.config.cache import CacheConfig
from octavo.config.engine import EngineConfig
from octavo.config.load import LoadConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.source import ModelFiles


def fake_config(
    *,
    runner: str = "fake",
    num_blocks: int | None = 64,
    max_num_seqs: int = 4,
    max_num_batched_tokens: int = 32,
    max_model_len: int = 256,
    vocab_size: int = 1000,
) -> EngineConfig:
    """One layer, blocks of 16 tokens, and no files."""
    return EngineConfig(
        model=ModelConfig(
            architecture="fake",
            vocab_size=vocab_size,
            hidden_size=8,
            intermediate_size=8,
            num_layers=1,
            num_heads=1,
            num_kv_heads=1,
            head_size=8,
            rms_norm_eps=1e-5,
            rope=RopeConfig(theta=1e4, dim=8),
            max_position=max_model_len,
            tie_embeddings=True,
        ),
        load=LoadConfig(
            files=ModelFiles(name="fake", format="safetensors", folder=Path(), weights=()),
            dtype="float32",
            max_model_len=max_model_len,
            max_model_len_is_explicit=True,
            use_generation_config=False,
        ),
        cache=CacheConfig(
            block_size=16, dtype="float32", num_blocks=num_blocks, memory_bytes=None, memory_utilization=None, enable_prefix_caching=True
        ),
        scheduler=SchedulerConfig(max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens),
        attention_backend="none",
        runner=runner,
        sampler="none",
        device="cpu",
        seed=None,
        decisions=(),
    )
