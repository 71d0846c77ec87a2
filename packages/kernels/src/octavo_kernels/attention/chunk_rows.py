"""Attention of chunks (prefill) with torch's own kernels, one request after the other, in tiles of query rows.

A tile reads the keys up to its last row only, so that masks stay small and little of what is computed is masked away.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionSpec
from octavo_kernels.attention.dense import attend_dense
from octavo_kernels.attention.pages import additive_mask, first_visible_key, gather_pages
from octavo_kernels.attention.rows import Chunk

TILE_ROWS = 512


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Consecutive rows of a chunk.

    Attributes:
        first_row, last_row: rows of the step, the last excluded.
        first_key, last_key: of the gathered keys, the last excluded.
        mask: additive [rows, keys], or None where rows and keys are the same tokens: plainly causal.
    """

    first_row: int
    last_row: int
    first_key: int
    last_key: int
    mask: Tensor | None


@dataclass(frozen=True, kw_only=True)
class ChunkPlan:
    """One chunk.

    Attributes:
        pages: int64 [1, T], blocks that hold its visible keys.
        tiles: its rows.
    """

    pages: Tensor
    tiles: tuple[Tile, ...]


def plan_chunks(
    chunks: Sequence[Chunk], block_table: Tensor, *, block_size: int, window: int | None, dtype: torch.dtype
) -> tuple[ChunkPlan, ...]:
    """Plan chunks; block_table is int32 [R, T] on the device that attends."""
    plans = []
    for chunk in chunks:
        first_block = first_visible_key(chunk.num_before, window) // block_size
        last_block = -(-chunk.seq_len // block_size)
        pages = block_table[chunk.request, first_block:last_block].to(torch.int64).unsqueeze(0)
        tiles = tuple(
            _plan_tile(chunk, start, gathered_from=first_block * block_size, window=window, dtype=dtype, device=block_table.device)
            for start in range(0, chunk.num_rows, TILE_ROWS)
        )
        plans.append(ChunkPlan(pages=pages, tiles=tiles))
    return tuple(plans)


def _plan_tile(chunk: Chunk, start: int, *, gathered_from: int, window: int | None, dtype: torch.dtype, device: torch.device) -> Tile:
    num_rows = min(TILE_ROWS, chunk.num_rows - start)
    first_position = chunk.num_before + start
    last_position = first_position + num_rows
    first_key = first_visible_key(first_position, window)
    mask = None
    if first_position > 0 or (window is not None and window < last_position):
        positions = torch.arange(first_position, last_position, device=device).unsqueeze(1)
        keys = torch.arange(first_key, last_position, device=device)
        visible = keys <= positions
        if window is not None:
            visible &= keys > positions - window
        mask = additive_mask(visible, dtype)
    return Tile(
        first_row=chunk.first_row + start,
        last_row=chunk.first_row + start + num_rows,
        first_key=first_key - gathered_from,
        last_key=last_position - gathered_from,
        mask=mask,
    )


def attend_chunks(spec: AttentionSpec, plans: Sequence[ChunkPlan], query: Tensor, cache: Tensor, out: Tensor) -> None:
    """Attend planned chunks of one layer: query and out [N, H, D], cache [B, 2, G, S, D]."""
    num_groups, group_size = spec.num_kv_heads, spec.num_heads // spec.num_kv_heads
    for plan in plans:
        keys, values = gather_pages(cache, plan.pages)
        for tile in plan.tiles:
            # KV heads are the batch and the heads of a group share keys by a stride of zero: [G, H / G, rows or keys, D].
            grouped = query[tile.first_row : tile.last_row].reshape(-1, num_groups, group_size, spec.head_size).permute(1, 2, 0, 3)
            shared_keys, shared_values = (
                tensor[0, :, None, tile.first_key : tile.last_key].expand(-1, group_size, -1, -1) for tensor in (keys, values)
            )
            attended = attend_dense(spec, grouped, shared_keys, shared_values, tile.mask)
            out[tile.first_row : tile.last_row] = attended.permute(2, 0, 1, 3).flatten(1, 2)
