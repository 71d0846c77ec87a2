"""Llama 2, 3 and 3.x, Mistral, SmolLM and what else has their shape (Touvron et al. 2023)."""

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from octavo.model.config import ModelConfig
from octavo_kernels.attention import AttentionSpec
from octavo_models.layers import FeedForward, GatedMLP, Linear, RMSNorm, VocabularyEmbedding, VocabularyHead, rotary_table, rotate
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
    """Norm, attention, norm, gated MLP, each pair added to the residual.

    Args:
        config: the model's shape; biases, norms of queries and keys and windows are as it says.
        dtype: of the weights.
        group: ranks.
        index: number of the layer.
        mlp: stands in place of the gated MLP.
    """

    def __init__(
        self, config: ModelConfig, dtype: torch.dtype, group: ParallelGroup = SINGLE, *, index: int = 0, mlp: FeedForward | None = None
    ) -> None:
        super().__init__()
        hidden, head = config.hidden_size, config.head_size
        heads, kv_heads = Part(config.num_heads * head, head), Part(config.num_kv_heads * head, head)
        self.attention = AttentionSpec(
            num_heads=heads.local_size(group) // head,
            num_kv_heads=kv_heads.local_size(group) // head,
            head_size=head,
            scale=head**-0.5,
            sliding_window=config.window(index),
        )
        self.input_norm = RMSNorm(hidden, config.rms_norm_eps, dtype=dtype)
        self.qkv = Linear(hidden, [heads, kv_heads, kv_heads], split="column", bias=config.attention_bias, dtype=dtype, group=group)
        self.query_norm = RMSNorm(head, config.rms_norm_eps, dtype=dtype) if config.qk_norm else None
        self.key_norm = RMSNorm(head, config.rms_norm_eps, dtype=dtype) if config.qk_norm else None
        self.output = Linear(heads.size, [hidden], split="row", bias=config.output_bias, dtype=dtype, group=group)
        self.mlp_norm = RMSNorm(hidden, config.rms_norm_eps, dtype=dtype)
        self.mlp = mlp or GatedMLP(hidden, config.intermediate_size, bias=config.mlp_bias, dtype=dtype, group=group)

    def before(self, positions: Tensor, rotary: Tensor, carry: Carry) -> tuple[AttentionInputs, Carry]:
        (residual,) = carry
        projected = self.qkv.separate(self.input_norm(residual))
        query, key, value = (heads.view(len(heads), -1, self.attention.head_size) for heads in projected)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        query, key = rotate(query, key, positions, rotary)
        return AttentionInputs(query, key, value), carry

    def after(self, attended: Tensor, carry: Carry) -> Carry:
        (residual,) = carry
        residual = self.output.add(attended.flatten(1), residual)
        return (self.mlp.add(self.mlp_norm(residual), residual),)


class LlamaModel(PiecewiseModel):
    """The decoder; serves architectures "llama" and "mistral", and those that differ from them by names or by layers."""

    names = NAMES

    def __init__(self, config: ModelConfig, dtype: torch.dtype) -> None:
        super().__init__(config, dtype)
        self.carry = (CarrySpec(name="residual", width=config.hidden_size),)
        self.embedding = VocabularyEmbedding(config.vocab_size, config.hidden_size, dtype=dtype)
        layers = nn.ModuleList(self.make_layer(index) for index in range(config.num_layers))
        self.layers = cast("Sequence[PiecewiseLayer]", layers)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, dtype=dtype)
        self.head = VocabularyHead(self.embedding, tied=config.tie_embeddings, dtype=dtype)

    def make_layer(self, index: int) -> PiecewiseLayer:
        """The layer of a number, with empty weights."""
        return LlamaLayer(self.config, self.dtype, index=index)

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

    def likeliest(self, hidden: Tensor) -> Tensor:
        # A model that makes something else of the head's outputs is asked for that.
        return self.head.largest(hidden) if type(self).logits is LlamaModel.logits else super().likeliest(hidden)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        experts = self.config.experts
        num_experts = experts.num_experts if experts else 0
        fill_parameters(self, weights, self.names, num_layers=self.config.num_layers, num_experts=num_experts)
