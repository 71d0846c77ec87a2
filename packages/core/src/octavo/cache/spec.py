"""How many bytes a token's KV takes, by kind of attention."""

from dataclasses import dataclass

from octavo.model.config import ModelConfig

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one element of the types that a KV cache can hold."""


@dataclass(frozen=True, kw_only=True)
class FullAttentionSpec:
    """One layer that keeps keys and values of every position.

    Attributes:
        num_kv_heads, head_size: of the layer.
        dtype: float32, bfloat16 or float16.
    """

    num_kv_heads: int
    head_size: int
    dtype: str

    @property
    def bytes_per_token(self) -> int:
        """Bytes one token takes in this layer: key and value."""
        return 2 * self.num_kv_heads * self.head_size * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, kw_only=True)
class KVGroup:
    """Layers of one spec: they share a block table, and a block of the group holds all of them.

    Attributes:
        spec: of each layer.
        num_layers: layers in the group.
        block_size: tokens a block.
    """

    spec: FullAttentionSpec
    num_layers: int
    block_size: int

    @property
    def bytes_per_token(self) -> int:
        return self.num_layers * self.spec.bytes_per_token

    @property
    def bytes_per_block(self) -> int:
        return self.block_size * self.bytes_per_token


def kv_groups(model: ModelConfig, *, block_size: int, dtype: str) -> tuple[KVGroup, ...]:
    """The groups of a model's layers, in the order of block tables everywhere."""
    spec = FullAttentionSpec(num_kv_heads=model.num_kv_heads, head_size=model.head_size, dtype=dtype)
    return (KVGroup(spec=spec, num_layers=model.num_layers, block_size=block_size),)
