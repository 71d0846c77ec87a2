"""The backend "sdpa": torch's scaled_dot_product_attention over gathered pages; any device, any floating type."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionBackend, AttentionSpec, AttentionStep
from octavo_kernels.attention.chunk_rows import ChunkPlan, attend_chunks, plan_chunks
from octavo_kernels.attention.pages import plain_page_shape
from octavo_kernels.attention.rows import StepRows, sort_rows
from octavo_kernels.attention.single_rows import SingleRowBatch, attend_single_rows, plan_single_rows


@dataclass(frozen=True, kw_only=True)
class WindowPlan:
    """What rows read under one window."""

    single: tuple[SingleRowBatch, ...]
    chunks: tuple[ChunkPlan, ...]


@dataclass(frozen=True, kw_only=True)
class SdpaPlan:
    """One step.

    Attributes:
        rows: sorted by how they attend.
        idle: int64 rows whose output is zero, or None.
        written: int64 rows that have a slot, or None for all of them.
        blocks, offsets: int64, where the written rows go.
        block_table: int32 [R, T].
        windows: what rows read, made for each window when its first layer runs.
    """

    rows: StepRows
    idle: Tensor | None
    written: Tensor | None
    blocks: Tensor
    offsets: Tensor
    block_table: Tensor
    windows: dict[int | None, WindowPlan] = field(default_factory=dict)


class SdpaAttention(AttentionBackend):
    """Gathers the pages that rows read and hands them to torch. Rows without a request put out zeros."""

    name = "sdpa"

    @classmethod
    def unsupported(
        cls,
        spec: AttentionSpec,  # noqa: ARG003
        *,
        block_size: int,  # noqa: ARG003
        dtype: torch.dtype,
        device: torch.device,  # noqa: ARG003
    ) -> str | None:
        return None if dtype.is_floating_point else f"torch attends in floating types, not in {dtype}"

    def page_shape(self, spec: AttentionSpec) -> tuple[int, ...]:
        return plain_page_shape(spec, self.block_size)

    def plan(self, step: AttentionStep) -> SdpaPlan:
        rows = sort_rows(step)
        has_slot = step.slot_mapping >= 0
        written = None if bool(has_slot.all()) else has_slot.nonzero().squeeze(1)
        slots = step.slot_mapping if written is None else step.slot_mapping[written]
        return SdpaPlan(
            rows=rows,
            idle=torch.tensor(rows.idle, dtype=torch.int64, device=self.device) if rows.idle else None,
            written=written,
            blocks=slots // self.block_size,
            offsets=slots % self.block_size,
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
        assert isinstance(plan, SdpaPlan)
        _store(plan, key, value, cache)
        if spec.sliding_window not in plan.windows:
            plan.windows[spec.sliding_window] = self._plan_window(plan, spec.sliding_window)
        window = plan.windows[spec.sliding_window]
        attend_single_rows(spec, window.single, query, cache, out)
        attend_chunks(spec, window.chunks, query, cache, out)
        if plan.idle is not None:
            out.index_fill_(0, plan.idle, 0)

    def _plan_window(self, plan: SdpaPlan, window: int | None) -> WindowPlan:
        size, dtype, table = self.block_size, self.dtype, plan.block_table
        return WindowPlan(
            single=plan_single_rows(plan.rows.single, table, block_size=size, window=window, dtype=dtype),
            chunks=plan_chunks(plan.rows.chunks, table, block_size=size, window=window, dtype=dtype),
        )


def _store(plan: SdpaPlan, key: Tensor, value: Tensor, cache: Tensor) -> None:
    for index, source in enumerate((key, value)):
        rows = source if plan.written is None else source.index_select(0, plan.written)
        cache[:, index].transpose(1, 2)[plan.blocks, plan.offsets] = rows
