"""Qwen3 (Yang et al. 2025): Llama's layer with a norm on each head of queries and keys."""

from octavo_models.llama import NAMES as LLAMA_NAMES
from octavo_models.llama import LlamaModel
from octavo_models.loading.mapping import Target

NAMES = LLAMA_NAMES.changed(
    {
        "model.layers.{}.self_attn.q_norm": Target("layers.{}.query_norm"),
        "model.layers.{}.self_attn.k_norm": Target("layers.{}.key_norm"),
    }
)


class Qwen3Model(LlamaModel):
    """The decoder; serves architecture "qwen3"."""

    names = NAMES
