"""Tensors that are made once, for the largest step, and that each step uses the first rows of.

Shape legend: N tokens, R requests, T longest block table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo_kernels.attention import AttentionSpec
from octavo_models.model import AttentionInputs, Carry, CarrySpec


class HostArray:
    """What the host writes and the device reads: one and the same memory on a CPU, else pinned memory and a copy of it.

    Args:
        size: elements.
        dtype: of the elements.
        device: that reads them.
    """

    def __init__(self, size: int, dtype: torch.dtype, device: torch.device) -> None:
        on_cpu = device.type == "cpu"
        self._host = torch.zeros(size, dtype=dtype, pin_memory=not on_cpu)
        self._device = self._host if on_cpu else torch.zeros(size, dtype=dtype, device=device)
        self.array: NDArray[np.generic] = self._host.numpy()
        """[size], for the host to write."""

    def upload(self, size: int) -> Tensor:
        """The first elements on the device, as they are now; valid until the array is written again."""
        device = self._device[:size]
        if self._device is not self._host:
            device.copy_(self._host[:size], non_blocking=True)
        return device


class InputBuffers:
    """What `prepare` fills: token ids and positions int64 [N], query starts int32 [R + 1], lengths int32 [R], sampling rows int64 [R];
    for each KV group slots int64 [N] and a block table int32 [R * T]."""

    def __init__(self, *, max_tokens: int, max_requests: int, max_blocks: Sequence[int], device: torch.device) -> None:
        self.device = device
        self.token_ids = HostArray(max_tokens, torch.int64, device)
        self.positions = HostArray(max_tokens, torch.int64, device)
        self.query_start = HostArray(max_requests + 1, torch.int32, device)
        self.seq_lens = HostArray(max_requests, torch.int32, device)
        self.sample_rows = HostArray(max_requests, torch.int64, device)
        self.slot_mappings = tuple(HostArray(max_tokens, torch.int64, device) for _ in max_blocks)
        self.block_tables = tuple(HostArray(max_requests * blocks, torch.int32, device) for blocks in max_blocks)


class AttentionShape(NamedTuple):
    """H, G and D."""

    num_heads: int
    num_kv_heads: int
    size: int

    def heads(self) -> tuple[int, int, int, int]:
        """Heads of query, key, value and output."""
        return self.num_heads, self.num_kv_heads, self.num_kv_heads, self.num_heads


@dataclass(frozen=True, kw_only=True)
class BorderRows:
    """The first N rows of what crosses a border in one step: places that results of pieces are copied to.

    Attributes:
        carry: one tensor [N, width] a part of the carry.
        attention: inputs and output [N, H, D] of each shape of attention.
    """

    carry: Carry
    attention: dict[AttentionShape, tuple[AttentionInputs, Tensor]]

    def hold_carry(self, carry: Carry) -> Carry:
        """Copy a carry in; what comes back is at a fixed place."""
        for place, tensor in zip(self.carry, carry, strict=True):
            _copy(place, tensor)
        return self.carry

    def hold_inputs(self, spec: AttentionSpec, inputs: AttentionInputs) -> tuple[AttentionInputs, Tensor]:
        """Copy what attention takes of a layer in; with it comes the place that attention writes."""
        places, attended = self.attention[attention_shape(spec)]
        for place, tensor in zip(places, inputs, strict=True):
            _copy(place, tensor)
        return places, attended


class BorderBuffers:
    """What crosses a border: the carry, and queries, keys, values and outputs of each shape of attention that the model has.

    A piece's results are copied in here, so that what reads them finds them at the same place in every step.

    Args:
        max_tokens: rows.
        carry: what the model hands from layer to layer.
        attention: of each layer.
        dtype: of the model's activations.
        cache_dtype: of the KV cache, which attention works in; copying converts.
        device: of all tensors.
    """

    def __init__(
        self,
        *,
        max_tokens: int,
        carry: Sequence[CarrySpec],
        attention: Iterable[AttentionSpec],
        dtype: torch.dtype,
        cache_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        def rows(*shape: int, kind: torch.dtype) -> Tensor:
            return torch.zeros(max_tokens, *shape, dtype=kind, device=device)

        self._carry = tuple(rows(spec.width, kind=spec.dtype or dtype) for spec in carry)
        self._attention: dict[AttentionShape, tuple[AttentionInputs, Tensor]] = {}
        for shape in {attention_shape(spec) for spec in attention}:
            query, key, value, attended = (rows(heads, shape.size, kind=cache_dtype) for heads in shape.heads())
            self._attention[shape] = (AttentionInputs(query, key, value), attended)

    @property
    def num_bytes(self) -> int:
        """Bytes of all of them."""
        attention = [tensor for inputs, attended in self._attention.values() for tensor in (*inputs, attended)]
        return sum(tensor.nbytes for tensor in (*self._carry, *attention))

    def first_rows(self, num_tokens: int) -> BorderRows:
        """The places of a step of so many tokens."""
        return BorderRows(
            carry=tuple(buffer[:num_tokens] for buffer in self._carry),
            attention={
                shape: (AttentionInputs(*(buffer[:num_tokens] for buffer in inputs)), attended[:num_tokens])
                for shape, (inputs, attended) in self._attention.items()
            },
        )


def attention_shape(spec: AttentionSpec) -> AttentionShape:
    """What of a layer's attention decides on the shapes of its tensors."""
    return AttentionShape(spec.num_heads, spec.num_kv_heads, spec.head_size)


def _copy(place: Tensor, tensor: Tensor) -> None:
    if tensor is not place:
        place.copy_(tensor)
