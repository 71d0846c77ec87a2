"""Tensors that are made once, for the largest step, and that each step uses the first rows of.

Shape legend: N tokens, R requests, T longest block table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo_kernels.attention import AttentionSpec
from octavo_models.model import Border, Carry, CarrySpec


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


class HostTable:
    """Rows of different tables, which the host writes and the device reads.

    Args:
        num_rows, num_columns: of the largest.
        device: that reads them.
    """

    def __init__(self, num_rows: int, num_columns: int, device: torch.device) -> None:
        self._narrow = HostArray(num_rows * num_columns, torch.int32, device)
        self._num_columns = num_columns

    def fill(self, rows: NDArray[np.int32]) -> Tensor:
        """int32 [R, T] on the device, contiguous; valid until it is filled again."""
        self._narrow.array[: rows.size] = rows.reshape(-1)
        return self._narrow.upload(rows.size).view(rows.shape)

    def fill_at_place(self, rows: NDArray[np.int32], num_rows: int) -> Tensor:
        """int32 [num_rows, num_columns] on the device, at the same place whatever the rows are; beyond them is what was there before."""
        wide = self._wide[:num_rows]
        wide[: len(rows), : rows.shape[1]].copy_(self.fill(rows))
        return wide

    @cached_property
    def _wide(self) -> Tensor:
        return self._narrow.upload(0).new_zeros(len(self._narrow.array) // self._num_columns, self._num_columns)


class InputBuffers:
    """What `prepare` fills: token ids and positions int64 [N], query starts int32 [R + 1], lengths int32 [R], sampling rows int64 [R];
    for each KV group slots int64 [N] and a block table int32 [R, T]. `max_seq_len` is that of the longest sequence."""

    def __init__(
        self, *, max_tokens: int, max_requests: int, max_blocks: Sequence[int], device: torch.device, max_seq_len: int = 0
    ) -> None:
        self.device = device
        self.max_tokens = max_tokens
        self.max_requests = max_requests
        self.max_seq_len = max_seq_len
        self.token_ids = HostArray(max_tokens, torch.int64, device)
        self.positions = HostArray(max_tokens, torch.int64, device)
        self.query_start = HostArray(max_requests + 1, torch.int32, device)
        self.seq_lens = HostArray(max_requests, torch.int32, device)
        self.sample_rows = HostArray(max_requests, torch.int64, device)
        self.slot_mappings = tuple(HostArray(max_tokens, torch.int64, device) for _ in max_blocks)
        self.block_tables = tuple(HostTable(max_requests, blocks, device) for blocks in max_blocks)


class RowShape(NamedTuple):
    """One row of a tensor [N, *shape]."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class BorderShape(NamedTuple):
    """Rows of what a border takes and of what it puts out. Borders of one shape share their places."""

    inputs: tuple[RowShape, ...]
    output: RowShape


class BorderPlaces(NamedTuple):
    """Where a border finds what it takes, and where it writes what it puts out."""

    inputs: tuple[Tensor, ...]
    output: Tensor


@dataclass(frozen=True, kw_only=True)
class BorderRows:
    """The first N rows of what crosses a border in one step: places that results of pieces are copied to.

    Attributes:
        carry: one tensor [N, width] a part of the carry.
        places: of each shape of border.
    """

    carry: Carry
    places: dict[BorderShape, BorderPlaces]


class BorderBuffers:
    """What crosses a border: the carry, and what each shape of border that the model has takes and puts out.

    A piece's results are copied in here, so that what reads them finds them at the same place in every step.

    Args:
        max_tokens: rows.
        carry: what the model hands from layer to layer.
        borders: of all layers.
        dtype: of the model's activations.
        cache_dtype: of the KV cache, which attention works in; copying converts.
        device: of all tensors.
    """

    def __init__(
        self,
        *,
        max_tokens: int,
        carry: Sequence[CarrySpec],
        borders: Iterable[AttentionSpec | Border],
        dtype: torch.dtype,
        cache_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        def rows(row: RowShape) -> Tensor:
            return torch.zeros(max_tokens, *row.shape, dtype=row.dtype, device=device)

        self.max_tokens = max_tokens
        self._dtype = dtype
        self._cache_dtype = cache_dtype
        self._carry = tuple(rows(_row_shape(spec, dtype)) for spec in carry)
        self._places = {
            shape: BorderPlaces(tuple(map(rows, shape.inputs)), rows(shape.output)) for shape in dict.fromkeys(map(self.shape, borders))
        }

    @property
    def num_bytes(self) -> int:
        """Bytes of all of them."""
        places = [tensor for inputs, output in self._places.values() for tensor in (*inputs, output)]
        return sum(tensor.nbytes for tensor in (*self._carry, *places))

    def shape(self, border: AttentionSpec | Border) -> BorderShape:
        """What of a border decides on the shapes of its tensors."""
        if isinstance(border, AttentionSpec):
            query, key = (RowShape((heads, border.head_size), self._cache_dtype) for heads in (border.num_heads, border.num_kv_heads))
            return BorderShape((query, key, key), query)
        return BorderShape(tuple(_row_shape(spec, self._dtype) for spec in border.inputs), _row_shape(border.output, self._dtype))

    def first_rows(self, num_tokens: int) -> BorderRows:
        """The places of a step of so many tokens."""
        return BorderRows(
            carry=tuple(buffer[:num_tokens] for buffer in self._carry),
            places={
                shape: BorderPlaces(tuple(buffer[:num_tokens] for buffer in inputs), output[:num_tokens])
                for shape, (inputs, output) in self._places.items()
            },
        )


def _row_shape(spec: CarrySpec, dtype: torch.dtype) -> RowShape:
    return RowShape((spec.width,), spec.dtype or dtype)
