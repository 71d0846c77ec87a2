"""Llama 2, 3 and 3.x, Mistral, SmolLM and what else has their shape (Touvron et al. 2023)."""

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from octavo.model.config import ModelConfig
from octavo_kernels.attention import AttentionSpec
from octavo_models.layers import GatedMLP, Linear, RMSNorm, VocabularyEmbedding, VocabularyHead, rotary_table, rotate
from octavo_models.layers.parallel import SINGLE, ParallelGroup, Part
from octavo_models.loading.fill import fill_parameters
from octavo_models.loading.mapping import NameTable, Target
from octavo_models.model import AttentionInputs, Carry, CarrySpec, PiecewiseLayer, PiecewiseModel

NAMES = NameTable(
    modules={
        "model.embed_tokens": Target("embedding"),
        "model.layers.{}.input_layernorm": Target("layers.{}.input_norm"),
        "model.layers.{}.self_attn.q_proj": Target("layers.{}.qkv", 0),
        "model.layers.{}.self_attn.k_proj": Target("layers.{}.qkv", 1),
        "model.layers.{}.self_attn.v_proj": Target("layers.{}.qkv", 2),
        "model.layers.{}.self_attn.o_proj": Target("layers.{}.output"),
        "model.layers.{}.post_attention_layernorm": Target("layers.{}.mlp_norm"),
        "model.layers.{}.mlp.gate_proj": Target("layers.{}.mlp.gate_up", 0),
        "model.layers.{}.mlp.up_proj": Target("layers.{}.mlp.gate_up", 1),
        "model.layers.{}.mlp.down_proj": Target("layers.{}.mlp.down"),
        "model.norm": Target("norm"),
        "lm_head": Target("head"),
    },
    ignored=(".rotary_emb.inv_freq",),
)


class LlamaLayer(PiecewiseLayer):
    """Norm, attention, norm, gated MLP, each pair added to the residual."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype, group: ParallelGroup = SINGLE) -> None:
        super().__init__()
        hidden, head = config.hidden_size, config.head_size
        heads, kv_heads = Part(config.num_heads * head, head), Part(config.num_kv_heads * head, head)
        self.attention = AttentionSpec(
            num_heads=heads.local_size(group) // head,
            num_kv_heads=kv_heads.local_size(group) // head,
            head_size=head,
            scale=head**-0.5,
            sliding_window=config.sliding_window,
        )
        bias = config.attention_bias
        self.input_norm = RMSNorm(hidden, config.rms_norm_eps, dtype=dtype)
        self.qkv = Linear(hidden, [heads, kv_heads, kv_heads], split="column", bias=bias, dtype=dtype, group=group)
        self.output = Linear(heads.size, [hidden], split="row", bias=bias, dtype=dtype, group=group)
        self.mlp_norm = RMSNorm(hidden, config.rms_norm_eps, dtype=dtype)
        self.mlp = GatedMLP(hidden, config.intermediate_size, bias=config.mlp_bias, dtype=dtype, group=group)

    def before(self, positions: Tensor, rotary: Tensor, carry: Carry) -> tuple[AttentionInputs, Carry]:
        (residual,) = carry
        projected = self.qkv.separate(self.input_norm(residual))
        query, key, value = (heads.view(len(heads), -1, self.attention.head_size) for heads in projected)
        query, key = rotate(query, key, positions, rotary)
        return AttentionInputs(query, key, value), carry

    def after(self, attended: Tensor, carry: Carry) -> Carry:
        (residual,) = carry
        residual = self.output.add(attended.flatten(1), residual)
        return (self.mlp.add(self.mlp_norm(residual), residual),)


class LlamaModel(PiecewiseModel):
    """The decoder; serves architectures "llama" and "mistral"."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype) -> None:
        super().__init__(config, dtype)
        self.carry = (CarrySpec(name="residual", width=config.hidden_size),)
        self.embedding = VocabularyEmbedding(config.vocab_size, config.hidden_size, dtype=dtype)
        layers = nn.ModuleList(LlamaLayer(config, dtype) for _ in range(config.num_layers))
        self.layers = cast("Sequence[PiecewiseLayer]", layers)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, dtype=dtype)
        self.head = VocabularyHead(self.embedding, tied=config.tie_embeddings, dtype=dtype)

    def embed(self, token_ids: Tensor) -> Carry:
        return (self.embedding(token_ids),)

    def rotary_table(self, max_len: int) -> Tensor:
        return rotary_table(self.config.rope, max_len)

    def final(self, carry: Carry) -> Tensor:
        (residual,) = carry
        hidden: Tensor = self.norm(residual)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.head(hidden)
        return logits

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        ignored = frozenset({"lm_head.weight"}) if self.config.tie_embeddings else frozenset[str]()
        fill_parameters(self, weights, NAMES, num_layers=self.config.num_layers, ignored=ignored)
