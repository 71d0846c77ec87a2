"""Attention of single rows (decode) with torch's own kernels, many requests at once.

Requests are batched by the number of pages they read, rounded up to a ladder of sizes by the request's own length. So
padding stays below a quarter whatever the mix of lengths, and the shape that a row is computed in does not depend on the
others of its batch.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionSpec
from octavo_kernels.attention.dense import attend_dense
from octavo_kernels.attention.pages import additive_mask, first_visible_key, gather_pages
from octavo_kernels.attention.rows import Chunk

MAX_GATHERED_TOKENS = 1 << 16
"""Tokens of one gather, which bounds the memory that a batch takes."""


@dataclass(frozen=True, kw_only=True)
class SingleRowBatch:
    """Single rows that are computed together.

    Attributes:
        rows: int64 [R], rows of the step.
        pages: int64 [R, T], null block where there is nothing to read.
        mask: [R, 1, 1, T * S], additive.
    """

    rows: Tensor
    pages: Tensor
    mask: Tensor


def rounded_up(count: int) -> int:
    """The next of 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40 and so on: four steps an octave."""
    step = 1 << max(0, (count - 1).bit_length() - 3)
    return -(-count // step) * step


def plan_single_rows(
    requests: Sequence[Chunk], block_table: Tensor, *, block_size: int, window: int | None, dtype: torch.dtype
) -> tuple[SingleRowBatch, ...]:
    """Batch single rows; block_table is int32 [R, T] on the device that attends."""
    sized = defaultdict(list)
    for request in requests:
        first_block = first_visible_key(request.num_before, window) // block_size
        sized[rounded_up(-(-request.seq_len // block_size) - first_block)].append(request)
    batches = []
    for num_pages, members in sorted(sized.items()):
        most = max(1, MAX_GATHERED_TOKENS // (num_pages * block_size))
        for start in range(0, len(members), most):
            batch = members[start : start + most]
            batches.append(_plan_batch(batch, num_pages, block_table, block_size=block_size, window=window, dtype=dtype))
    return tuple(batches)


def _plan_batch(
    requests: Sequence[Chunk], num_pages: int, block_table: Tensor, *, block_size: int, window: int | None, dtype: torch.dtype
) -> SingleRowBatch:
    device = block_table.device

    def column(values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64).to(device).unsqueeze(1)

    length = column([request.seq_len for request in requests])
    first_key = column([first_visible_key(request.num_before, window) for request in requests])
    columns = first_key // block_size + torch.arange(num_pages, device=device)
    table = block_table.index_select(0, column([request.request for request in requests]).squeeze(1)).to(torch.int64)
    exists = columns * block_size < length
    pages = table.gather(1, columns.clamp(max=table.shape[1] - 1)).masked_fill_(~exists, 0)
    positions = (columns.unsqueeze(2) * block_size + torch.arange(block_size, device=device)).flatten(1)
    mask = additive_mask((positions >= first_key) & (positions < length), dtype)
    rows = column([request.first_row for request in requests]).squeeze(1)
    return SingleRowBatch(rows=rows, pages=pages, mask=mask[:, None, None, :])


def attend_single_rows(spec: AttentionSpec, batches: Sequence[SingleRowBatch], query: Tensor, cache: Tensor, out: Tensor) -> None:
    """Attend planned rows of one layer: query and out [N, H, D], cache [B, 2, G, S, D]."""
    grouped_shape = (-1, spec.num_kv_heads, spec.num_heads // spec.num_kv_heads, spec.head_size)
    for batch in batches:
        keys, values = gather_pages(cache, batch.pages)
        # The heads of a group take the place of query positions: they read the same keys without these being repeated.
        grouped = query.index_select(0, batch.rows).view(grouped_shape)
        attended = attend_dense(spec, grouped, keys, values, batch.mask)
        out.index_copy_(0, batch.rows, attended.flatten(1, 2))
