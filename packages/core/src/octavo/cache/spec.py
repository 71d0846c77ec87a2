"""How many bytes a token's KV takes and how long it is kept, by kind of attention, and which layers share a block table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from octavo.model.config import ModelConfig

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one element of the types that a KV cache can hold."""

PLANNED_DTYPE_BYTES = DTYPE_BYTES | {"fp8": 1}
"""The same with the types that can be planned for only."""

MAX_GROUPS = 8
"""Groups of one model at most: each costs a block table a request, and a plan of attention a step."""


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
    window: ClassVar[None] = None

    @property
    def bytes_per_token(self) -> int:
        """Bytes one token takes in this layer: key and value."""
        return _bytes_of_key_and_value(self)


@dataclass(frozen=True, kw_only=True)
class SlidingWindowSpec:
    """One layer whose tokens see the last `window` positions, themselves included; what lies before is not kept.

    Attributes:
        num_kv_heads, head_size: of the layer.
        dtype: float32, bfloat16 or float16.
        window: tokens a query sees, itself included.
    """

    num_kv_heads: int
    head_size: int
    dtype: str
    window: int

    @property
    def bytes_per_token(self) -> int:
        """Bytes one token takes in this layer while it is kept: key and value."""
        return _bytes_of_key_and_value(self)


KVSpec = FullAttentionSpec | SlidingWindowSpec


@dataclass(frozen=True, kw_only=True)
class KVGroup:
    """Layers of one spec: they share a block table, and a block of the group holds all of them.

    Attributes:
        spec: of each layer.
        layers: their numbers in the model, ascending; not always consecutive.
        block_size: tokens a block.
        num_padded_layers: layers that a block has room for beside these, so that the blocks of all groups take the same bytes.
    """

    spec: KVSpec
    layers: tuple[int, ...]
    block_size: int
    num_padded_layers: int = 0

    @property
    def bytes_per_token(self) -> int:
        """Bytes one token takes in a block of the group, padding included."""
        return (len(self.layers) + self.num_padded_layers) * self.spec.bytes_per_token

    @property
    def bytes_per_block(self) -> int:
        return self.block_size * self.bytes_per_token

    def first_block(self, position: int) -> int:
        """Index of the first block that tokens from `position` on read."""
        return 0 if self.spec.window is None else max(0, position - self.spec.window + 1) // self.block_size

    def passed_at(self, block: int) -> int | None:
        """The first position whose token, like all after it, does not read the block of this index any more; None where there is none."""
        return None if self.spec.window is None else (block + 1) * self.block_size + self.spec.window - 1

    def most_blocks(self, num_tokens: int, max_step_tokens: int) -> int:
        """Blocks that a request of `num_tokens` holds at once at most, where no step runs more than `max_step_tokens` of it."""
        blocks = -(-num_tokens // self.block_size)
        if self.spec.window is None:
            return blocks
        span = self.spec.window - 1 + max_step_tokens
        return min(blocks, (span - 2) // self.block_size + 2)


def kv_groups(model: ModelConfig, *, block_size: int, dtype: str) -> tuple[KVGroup, ...]:
    """The groups of a model's layers, in the order of block tables everywhere: those that keep every position come first.

    Layers of one kind become groups of equal size, so that blocks of all kinds take the same bytes and come from one pool.
    """
    by_window: dict[int | None, list[int]] = {}
    for layer in range(model.num_layers):
        by_window.setdefault(model.window(layer), []).append(layer)
    counts = {window: len(layers) for window, layers in by_window.items()}
    size = layers_per_group(counts, model.max_position)
    groups = []
    for window in sorted(by_window, key=lambda window: (window is not None, window or 0)):
        layers = by_window[window]
        for start in range(0, len(layers), size):
            part = tuple(layers[start : start + size])
            groups.append(KVGroup(spec=_spec(model, window, dtype), layers=part, block_size=block_size, num_padded_layers=size - len(part)))
    return tuple(groups)


def layers_per_group(counts: Mapping[int | None, int], longest: int) -> int:
    """How many layers a group holds, given how many the model has of each window (None keeps every position).

    Of all sizes that need at most `MAX_GROUPS` groups, the one that pads least in a sequence of `longest` tokens: a layer too many in a
    block costs much where every position is kept, and little in a window. Among equals, the one that needs the fewest groups.
    """

    def num_groups(size: int) -> int:
        return sum(-(-count // size) for count in counts.values())

    def cost(size: int) -> tuple[int, int]:
        padding = sum(-count % size * min(window or longest, longest) for window, count in counts.items())
        return padding, num_groups(size)

    most = max(MAX_GROUPS, len(counts))
    return min((size for size in range(1, max(counts.values()) + 1) if num_groups(size) <= most), key=cost)


def _spec(model: ModelConfig, window: int | None, dtype: str) -> KVSpec:
    if window is None:
        return FullAttentionSpec(num_kv_heads=model.num_kv_heads, head_size=model.head_size, dtype=dtype)
    return SlidingWindowSpec(num_kv_heads=model.num_kv_heads, head_size=model.head_size, dtype=dtype, window=window)


def _bytes_of_key_and_value(spec: KVSpec) -> int:
    return 2 * spec.num_kv_heads * spec.head_size * PLANNED_DTYPE_BYTES[spec.dtype]
