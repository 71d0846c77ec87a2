"""The architecture "example-gpt": attention and MLP side by side, LayerNorm, squared ReLU, one KV head, half of each head rotated.

Its carry has two tensors: the residual, and the embedding, which every layer blends in again.
"""

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from octavo.model.config import ModelConfig
from octavo_example_model.config import ExampleGPTConfig
from octavo_example_model.layers import Blend, LayerNorm
from octavo_kernels.attention import AttentionSpec
from octavo_models.layers import Linear, Part, VocabularyEmbedding, VocabularyHead, rotary_table, rotate
from octavo_models.loading.fill import fill_parameters
from octavo_models.loading.mapping import NameTable, Target
from octavo_models.model import AttentionInputs, Carry, CarrySpec, PiecewiseLayer, PiecewiseModel

NAMES = NameTable(
    modules={
        "embedding": Target("embedding"),
        "layers.{}.blend": Target("layers.{}.blend"),
        "layers.{}.norm": Target("layers.{}.norm"),
        "layers.{}.attention.query": Target("layers.{}.qkv", 0),
        "layers.{}.attention.key": Target("layers.{}.qkv", 1),
        "layers.{}.attention.value": Target("layers.{}.qkv", 2),
        "layers.{}.attention.output": Target("layers.{}.output"),
        "layers.{}.mlp.up": Target("layers.{}.up"),
        "layers.{}.mlp.down": Target("layers.{}.down"),
        "norm": Target("norm"),
        "head": Target("head"),
    }
)


class ExampleGPTLayer(PiecewiseLayer):
    """x = blend(x, embedding); x + mlp(norm(x)) + attention(norm(x))."""

    def __init__(self, config: ExampleGPTConfig, dtype: torch.dtype) -> None:
        super().__init__()
        hidden, head = config.hidden_size, config.head_size
        heads, kv_heads = Part(config.num_heads * head, head), Part(config.num_kv_heads * head, head)
        self.attention = AttentionSpec(num_heads=config.num_heads, num_kv_heads=config.num_kv_heads, head_size=head, scale=head**-0.5)
        self.blend = Blend(dtype=dtype)
        self.norm = LayerNorm(hidden, config.layer_norm_eps, dtype=dtype)
        self.qkv = Linear(hidden, [heads, kv_heads, kv_heads], split="column", dtype=dtype)
        self.output = Linear(heads.size, [hidden], split="row", dtype=dtype)
        self.up = Linear(hidden, [config.intermediate_size], split="column", bias=True, dtype=dtype)
        self.down = Linear(config.intermediate_size, [hidden], split="row", bias=True, dtype=dtype)

    def before(self, positions: Tensor, rotary: Tensor, carry: Carry) -> tuple[AttentionInputs, Carry]:
        residual, embedding = carry
        residual = self.blend(residual, embedding)
        normed = self.norm(residual)
        query, key, value = (part.view(len(part), -1, self.attention.head_size) for part in self.qkv.separate(normed))
        query, key = rotate(query, key, positions, rotary)
        residual = self.down.add(functional.relu(self.up(normed)).square(), residual)
        return AttentionInputs(query, key, value), (residual, embedding)

    def after(self, attended: Tensor, carry: Carry) -> Carry:
        residual, embedding = carry
        return self.output.add(attended.flatten(1), residual), embedding


class ExampleGPT(PiecewiseModel):
    """The decoder."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype) -> None:
        super().__init__(config, dtype)
        assert isinstance(config, ExampleGPTConfig), "the plugin's reader makes the configuration"
        hidden = config.hidden_size
        self.carry = (CarrySpec(name="residual", width=hidden), CarrySpec(name="embedding", width=hidden))
        self.embedding = VocabularyEmbedding(config.vocab_size, hidden, dtype=dtype)
        self.layers = cast("Sequence[PiecewiseLayer]", nn.ModuleList(ExampleGPTLayer(config, dtype) for _ in range(config.num_layers)))
        self.norm = LayerNorm(hidden, config.layer_norm_eps, dtype=dtype)
        self.head = VocabularyHead(self.embedding, tied=False, dtype=dtype)

    def embed(self, token_ids: Tensor) -> Carry:
        embedding: Tensor = self.embedding(token_ids)
        return embedding, embedding

    def rotary_table(self, max_len: int) -> Tensor:
        return rotary_table(self.config.rope, max_len)

    def final(self, carry: Carry) -> Tensor:
        hidden: Tensor = self.norm(carry[0])
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.head(hidden)
        return logits

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        fill_parameters(self, weights, NAMES, num_layers=self.config.num_layers)
