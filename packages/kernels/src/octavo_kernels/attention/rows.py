"""Sorts a step's rows by how they attend: single rows, chunks of several, and rows that attend to nothing."""

from dataclasses import dataclass

from octavo_kernels.attention.backend import AttentionStep


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Consecutive rows of one request.

    Attributes:
        request: its place in the step.
        first_row, num_rows: rows of the step.
        seq_len: tokens of the request once the step is written; the chunk is the last `num_rows` of them.
    """

    request: int
    first_row: int
    num_rows: int
    seq_len: int

    @property
    def num_before(self) -> int:
        """Tokens of the request before the chunk."""
        return self.seq_len - self.num_rows


@dataclass(frozen=True, kw_only=True)
class StepRows:
    """Which rows attend in which way.

    Attributes:
        single: requests with one row each.
        chunks: requests with several.
        idle: rows of nobody, or of a request of length 0 (padding of the batch); their output is zero.
    """

    single: tuple[Chunk, ...]
    chunks: tuple[Chunk, ...]
    idle: tuple[int, ...]


def sort_rows(step: AttentionStep) -> StepRows:
    """Read a step on the host; waits for its device once."""
    starts: list[int] = step.query_start.tolist()
    lengths: list[int] = step.seq_lens.tolist()
    num_rows = step.slot_mapping.shape[0]
    single, chunks, idle = [], [], list(range(starts[-1], num_rows))
    for request, (first, last, length) in enumerate(zip(starts, starts[1:], lengths, strict=False)):
        if length == 0:
            idle.extend(range(first, last))
            continue
        assert last - first <= length, f"request {request} has {last - first} rows of {length} tokens"
        chunk = Chunk(request=request, first_row=first, num_rows=last - first, seq_len=length)
        if chunk.num_rows == 1:
            single.append(chunk)
        elif chunk.num_rows > 1:
            chunks.append(chunk)
    return StepRows(single=tuple(single), chunks=tuple(chunks), idle=tuple(idle))
