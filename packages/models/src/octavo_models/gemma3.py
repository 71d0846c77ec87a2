"""Gemma 3, text only (Gemma Team 2025): norms on both sides of attention and MLP, windows in most layers, two rotary embeddings."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from octavo.model.config import ModelConfig
from octavo_kernels.attention import AttentionSpec
from octavo_models.layers import GatedMLP, Linear, RMSNorm, rotary_table, rotate
from octavo_models.layers.parallel import SINGLE, ParallelGroup, Part
from octavo_models.llama import NAMES as LLAMA_NAMES
from octavo_models.llama import LlamaModel
from octavo_models.loading.mapping import Target
from octavo_models.model import AttentionInputs, Carry, PiecewiseLayer

NAMES = LLAMA_NAMES.changed(
    {
        "model.layers.{}.self_attn.q_norm": Target("layers.{}.query_norm"),
        "model.layers.{}.self_attn.k_norm": Target("layers.{}.key_norm"),
        "model.layers.{}.post_attention_layernorm": Target("layers.{}.output_norm"),
        "model.layers.{}.pre_feedforward_layernorm": Target("layers.{}.mlp_norm"),
        "model.layers.{}.post_feedforward_layernorm": Target("layers.{}.mlp_output_norm"),
    }
)

GLOBAL, LOCAL = 0, 1
"""Rotary tables: of layers that see everything, and of those with a window."""

_TEXT_PREFIXES = {"language_model.model.": "model.", "model.language_model.": "model.", "language_model.lm_head.": "lm_head."}
"""Where checkpoints that read images too keep the decoder."""

_NOT_TEXT = ("vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector.")


class Gemma3Layer(PiecewiseLayer):
    """Norm, attention, norm, then norm, gated MLP, norm, each three added to the residual.

    Args:
        config: the model's shape.
        dtype: of the weights.
        group: ranks.
        index: number of the layer.
    """

    def __init__(self, config: ModelConfig, dtype: torch.dtype, group: ParallelGroup = SINGLE, *, index: int = 0) -> None:
        super().__init__()
        hidden, head = config.hidden_size, config.head_size
        heads, kv_heads = Part(config.num_heads * head, head), Part(config.num_kv_heads * head, head)
        self.attention = AttentionSpec(
            num_heads=heads.local_size(group) // head,
            num_kv_heads=kv_heads.local_size(group) // head,
            head_size=head,
            scale=head**-0.5 if config.attention_scale is None else config.attention_scale,
            sliding_window=config.window(index),
            soft_cap=config.attention_soft_cap,
        )
        self.rotary_index = LOCAL if config.windowed_layers is None or config.windowed_layers[index] else GLOBAL

        def norm(size: int) -> RMSNorm:
            return RMSNorm(size, config.rms_norm_eps, dtype=dtype, offset=1.0)

        self.input_norm = norm(hidden)
        self.qkv = Linear(hidden, [heads, kv_heads, kv_heads], split="column", bias=config.attention_bias, dtype=dtype, group=group)
        self.query_norm, self.key_norm = norm(head), norm(head)
        self.output = Linear(heads.size, [hidden], split="row", bias=config.output_bias, dtype=dtype, group=group)
        self.output_norm = norm(hidden)
        self.mlp_norm = norm(hidden)
        self.mlp = GatedMLP(hidden, config.intermediate_size, activation=config.activation, dtype=dtype, group=group)
        self.mlp_output_norm = norm(hidden)

    def before(self, positions: Tensor, rotary: Tensor, carry: Carry) -> tuple[AttentionInputs, Carry]:
        (residual,) = carry
        projected = self.qkv.separate(self.input_norm(residual))
        query, key, value = (heads.view(len(heads), -1, self.attention.head_size) for heads in projected)
        query, key = rotate(self.query_norm(query), self.key_norm(key), positions, rotary)
        return AttentionInputs(query, key, value), carry

    def after(self, attended: Tensor, carry: Carry) -> Carry:
        (residual,) = carry
        residual = residual + self.output_norm(self.output(attended.flatten(1)))
        return (residual + self.mlp_output_norm(self.mlp(self.mlp_norm(residual))),)


class Gemma3Model(LlamaModel):
    """The decoder; serves architectures "gemma3_text" and "gemma3", of which it reads the text part."""

    names = NAMES

    def __init__(self, config: ModelConfig, dtype: torch.dtype) -> None:
        super().__init__(config, dtype)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, dtype=dtype, offset=1.0)
        # The model was trained with a scale of its own type: sqrt(1152) is 33.94, and 34.0 in bfloat16.
        self._embedding_scale = torch.tensor(config.embedding_scale, dtype=dtype, device="cpu").item()

    def make_layer(self, index: int) -> PiecewiseLayer:
        return Gemma3Layer(self.config, self.dtype, index=index)

    def embed(self, token_ids: Tensor) -> Carry:
        return (self.embedding(token_ids) * self._embedding_scale,)

    def rotary_tables(self, max_len: int) -> tuple[Tensor, ...]:
        """That of layers which see everything, then that of layers with a window."""
        return self.rotary_table(max_len), rotary_table(self.config.local_rope or self.config.rope, max_len)

    def logits(self, hidden: Tensor) -> Tensor:
        logits, cap = super().logits(hidden), self.config.logit_soft_cap
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        super().load_weights(_text_weights(weights))


def _text_weights(weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """What of a checkpoint is the decoder's, under the names that checkpoints of the decoder alone have."""
    for name, tensor in weights:
        if name.startswith(_NOT_TEXT):
            continue
        prefix = next((prefix for prefix in _TEXT_PREFIXES if name.startswith(prefix)), None)
        yield (name if prefix is None else _TEXT_PREFIXES[prefix] + name.removeprefix(prefix)), tensor
