"""The backend "cpu": single rows in C++, chunks in torch, over the plain page layout."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionBackend, AttentionSpec, AttentionStep
from octavo_kernels.attention.chunk_rows import ChunkPlan, attend_chunks, plan_chunks
from octavo_kernels.attention.pages import plain_page_shape
from octavo_kernels.attention.rows import Chunk, sort_rows
from octavo_kernels.cpu.abi import TYPES
from octavo_kernels.cpu.isa import choose_isa
from octavo_kernels.cpu.library import REMEDY, load_library
from octavo_kernels.cpu.paged_decode import MAX_HEAD_SIZE, paged_decode
from octavo_kernels.cpu.store_kv import store_kv


@dataclass(frozen=True, kw_only=True)
class SingleRows:
    """Single rows as the library takes them: rows int64 [R], block_table int32 [R, T], lengths int32 [R]."""

    rows: Tensor
    block_table: Tensor
    lengths: Tensor


@dataclass(frozen=True, kw_only=True)
class CpuPlan:
    """One step.

    Attributes:
        slots: int64 [N].
        single: single rows, or None where there are none.
        chunks: the other rows.
        idle: int64 rows whose output is zero, or None.
        block_table: int32 [R, T].
        windows: what chunks read, made for each window when its first layer runs.
    """

    slots: Tensor
    single: SingleRows | None
    chunks: tuple[Chunk, ...]
    idle: Tensor | None
    block_table: Tensor
    windows: dict[int | None, tuple[ChunkPlan, ...]] = field(default_factory=dict)


class CpuAttention(AttentionBackend):
    """C++ for decode, torch for prefill. Rows without a request put out zeros.

    Args:
        isa: "portable", "avx2" or "avx512"; None takes the best of this host. Raises ValueError if the host lacks it.
    """

    name = "cpu"

    def __init__(self, *, block_size: int, dtype: torch.dtype, device: torch.device, isa: str | None = None) -> None:
        super().__init__(block_size=block_size, dtype=dtype, device=device)
        self._library = _require_library()
        self._isa = choose_isa(self._library, isa)

    @classmethod
    def unsupported(cls, spec: AttentionSpec, *, block_size: int, dtype: torch.dtype, device: torch.device) -> str | None:
        if device.type != "cpu":
            return f"it runs on a CPU, not on {device.type}"
        if dtype not in TYPES:
            return f"it takes float32, bfloat16 and float16, not {dtype}"
        if spec.head_size % 8 or spec.head_size > MAX_HEAD_SIZE:
            return f"it takes head sizes that are multiples of 8 up to {MAX_HEAD_SIZE}, not {spec.head_size}"
        if block_size % 8:
            return f"it takes block sizes that are multiples of 8, not {block_size}"
        return None if load_library() is not None else f"the C++ library is not installed: {REMEDY}"

    def page_shape(self, spec: AttentionSpec) -> tuple[int, ...]:
        return plain_page_shape(spec, self.block_size)

    def plan(self, step: AttentionStep) -> CpuPlan:
        rows = sort_rows(step)
        return CpuPlan(
            slots=step.slot_mapping.contiguous(),
            single=_plan_single_rows(rows.single, step) if rows.single else None,
            chunks=rows.chunks,
            idle=torch.tensor(rows.idle, dtype=torch.int64) if rows.idle else None,
            block_table=step.block_table,
        )

    def run(
        self,
        spec: AttentionSpec,
        plan: object,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cache: Tensor,
        out: Tensor,
    ) -> None:
        assert isinstance(plan, CpuPlan)
        store_kv(self._library, key, value, cache, plan.slots)
        if plan.single is not None:
            paged_decode(
                self._library,
                query,
                cache,
                out,
                rows=plan.single.rows,
                block_table=plan.single.block_table,
                lengths=plan.single.lengths,
                scale=spec.scale,
                window=spec.sliding_window,
                isa=self._isa,
            )
        if plan.chunks:
            attend_chunks(spec, self._chunk_plans(plan, spec.sliding_window), query, cache, out)
        if plan.idle is not None:
            out.index_fill_(0, plan.idle, 0)

    def _chunk_plans(self, plan: CpuPlan, window: int | None) -> tuple[ChunkPlan, ...]:
        if window not in plan.windows:
            plan.windows[window] = plan_chunks(plan.chunks, plan.block_table, block_size=self.block_size, window=window, dtype=self.dtype)
        return plan.windows[window]


def _require_library() -> ctypes.CDLL:
    library = load_library()
    if library is None:
        raise ValueError(f"the attention backend 'cpu' needs the C++ library: {REMEDY}, or choose 'sdpa'")
    return library


def _plan_single_rows(requests: Sequence[Chunk], step: AttentionStep) -> SingleRows:
    places = torch.tensor([request.request for request in requests], dtype=torch.int64)
    return SingleRows(
        rows=torch.tensor([request.first_row for request in requests], dtype=torch.int64),
        block_table=step.block_table.index_select(0, places),
        lengths=step.seq_lens.index_select(0, places),
    )
