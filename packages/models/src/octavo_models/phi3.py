"""Phi-3, Phi-3.5 and Phi-4 (Abdin et al. 2024): Llama's layer with projections that are fused in the checkpoint already."""

from octavo_models.llama import NAMES as LLAMA_NAMES
from octavo_models.llama import LlamaModel
from octavo_models.loading.mapping import Target

_SEPARATE = (
    "model.layers.{}.self_attn.q_proj",
    "model.layers.{}.self_attn.k_proj",
    "model.layers.{}.self_attn.v_proj",
    "model.layers.{}.mlp.gate_proj",
    "model.layers.{}.mlp.up_proj",
)

NAMES = LLAMA_NAMES.changed(
    {
        "model.layers.{}.self_attn.qkv_proj": Target("layers.{}.qkv", num_parts=3),
        "model.layers.{}.mlp.gate_up_proj": Target("layers.{}.mlp.gate_up", num_parts=2),
    },
    without=_SEPARATE,
)


class Phi3Model(LlamaModel):
    """The decoder; serves architecture "phi3"."""

    names = NAMES
