"""Runs a model without cache and without runner: what a step through pages has to agree with."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from octavo.config.cache import CacheConfig
from octavo.config.engine import EngineConfig
from octavo.config.load import LoadConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.model.config import load_model_config
from octavo.model.folder import inspect_path
from octavo.plugins.registry import Registry
from octavo_kernels.reference.attention import causal_attention
from octavo_models import plugin
from octavo_models.loading.loader import load_model
from octavo_models.model import PiecewiseModel
from octavo_models.testing.model_under_test import usual_layers


def tiny_engine_config(path: Path, *, dtype: str = "float32", **fields: Any) -> EngineConfig:
    """A small configuration for the model at a path; `fields` replace fields of `EngineConfig`."""
    files = inspect_path(path, name=path.name)
    model = load_model_config(files)
    settings: dict[str, Any] = {
        "model": model,
        "load": LoadConfig(
            files=files,
            dtype=dtype,
            max_model_len=min(128, model.max_position),
            max_model_len_is_explicit=True,
            use_generation_config=True,
        ),
        "cache": CacheConfig(
            block_size=16, dtype=dtype, num_blocks=12, memory_bytes=None, memory_utilization=None, enable_prefix_caching=True
        ),
        "scheduler": SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=32),
        "attention_backend": "sdpa",
        "runner": "torch",
        "sampler": "default",
        "device": "cpu",
        "seed": 0,
        "decisions": (),
    }
    return EngineConfig(**(settings | fields))


def load_tiny_model(path: Path, *, dtype: str = "float32") -> PiecewiseModel:
    """The model at a path, as the loader makes it."""
    registry: Registry[Any] = Registry("model architecture")
    plugin.octavo_register_models(registry)
    config = tiny_engine_config(path, dtype=dtype)
    return load_model(config, registry.get(config.model.architecture), getattr(torch, dtype), progress=False)


def dense_logits(model: PiecewiseModel, token_ids: Tensor) -> Tensor:
    """token_ids int64 [N], one sequence from position 0 -> logits [N, V] of every position."""
    positions = torch.arange(len(token_ids))
    rotary = model.rotary_tables(len(token_ids))
    carry = model.embed(token_ids)
    for layer in usual_layers(model):
        (query, key, value), carry = layer.before(positions, rotary[layer.rotary_index], carry)
        carry = layer.after(causal_attention(query, key, value, layer.attention).to(query.dtype), carry)
    return model.logits(model.final(carry))
