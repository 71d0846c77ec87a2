"""Random requests over a paged cache, as a runner would drive a backend with them."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionStep
from octavo_kernels.testing.cases import AttentionCase


@dataclass(frozen=True, kw_only=True)
class TrafficStep:
    """One step: what a backend gets.

    Attributes:
        step: the plan's input.
        query: [N, H, D]; key, value: [N, G, D]; all of them views that are not contiguous, as slices of a fused projection are.
        owners: for each request with rows, its number and its rows of the step.
    """

    step: AttentionStep
    query: Tensor
    key: Tensor
    value: Tensor
    owners: tuple[tuple[int, range], ...]


class Traffic:
    """Whole sequences of queries, keys and values, cut into a case's steps; blocks are dealt in random order.

    Args:
        case: what to run.
        device: where tensors live.
    """

    def __init__(self, case: AttentionCase, device: torch.device) -> None:
        self.case = case
        self.device = device
        self._generator = torch.Generator().manual_seed(case.seed)
        num_requests = max(len(_rows_of(rows)) for rows in case.steps)
        self.lengths = [sum(_rows_at(rows, request) for rows in case.steps) for request in range(num_requests)]
        spec = case.spec
        width = spec.num_heads + 2 * spec.num_kv_heads
        self._sequences = [self._random(length, width, spec.head_size) for length in self.lengths]
        self._blocks = self._deal_blocks()

    @property
    def num_blocks(self) -> int:
        """Blocks of the cache, the null block and a few of nobody included."""
        return sum(len(blocks) for blocks in self._blocks) + 4

    def request(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Query [L, H, D], key and value [L, G, D] of a whole request."""
        return self._part(self._sequences[number])

    def stale(self, *shape: int) -> Tensor:
        """What freed blocks hold: large finite numbers."""
        return self._random(*shape) * 50

    def steps(self) -> Iterator[TrafficStep]:
        """The steps in order."""
        done = [0] * len(self.lengths)
        for rows in self.case.steps:
            yield self._step(done, _rows_of(rows), padding=-sum(count for count in rows if count < 0))
            for request, count in enumerate(_rows_of(rows)):
                done[request] += count

    def _step(self, done: list[int], rows: tuple[int, ...], *, padding: int) -> TrafficStep:
        present = [(request, count) for request, count in enumerate(rows) if count > 0]
        parts = [self._sequences[request][done[request] : done[request] + count] for request, count in present]
        fused = torch.cat((*parts, self._random(padding, *self._sequences[0].shape[1:])))
        query, key, value = self._part(fused)
        slots = [self._slot(request, done[request] + i) for request, count in present for i in range(count)]
        starts = [0]
        for _, count in present:
            starts.append(starts[-1] + count)
        lengths = [done[request] + count for request, count in present]
        step = AttentionStep(
            query_start=self._integers(starts, torch.int32),
            seq_lens=self._integers(lengths, torch.int32),
            block_table=self._block_table([request for request, _ in present], lengths),
            slot_mapping=self._integers([*slots, *[-1] * padding], torch.int64),
            max_query_len=max(count for _, count in present),
            max_seq_len=max(lengths),
        )
        owners = tuple((request, range(starts[i], starts[i + 1])) for i, (request, _) in enumerate(present))
        return TrafficStep(step=step, query=query, key=key, value=value, owners=owners)

    def _block_table(self, requests: list[int], lengths: list[int]) -> Tensor:
        tables = [self._blocks[request][: -(-length // self.case.block_size)] for request, length in zip(requests, lengths, strict=True)]
        # One column more than anybody needs: tables are as wide as the longest request that may come.
        width = max(len(table) for table in tables) + 1
        return self._integers([table + [0] * (width - len(table)) for table in tables], torch.int32)

    def _part(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        first_key, first_value = self.case.spec.num_heads, self.case.spec.num_heads + self.case.spec.num_kv_heads
        return fused[:, :first_key], fused[:, first_key:first_value], fused[:, first_value:]

    def _slot(self, request: int, position: int) -> int:
        size = self.case.block_size
        return self._blocks[request][position // size] * size + position % size

    def _deal_blocks(self) -> list[list[int]]:
        counts = [-(-length // self.case.block_size) for length in self.lengths]
        order: list[int] = (torch.randperm(sum(counts) + 3, generator=self._generator) + 1).tolist()
        return [[order.pop() for _ in range(count)] for count in counts]

    def _random(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._generator).to(self.device, self.case.torch_dtype)

    def _integers(self, values: list[int] | list[list[int]], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype).to(self.device)


def _rows_of(rows: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(count for count in rows if count >= 0)


def _rows_at(rows: tuple[int, ...], request: int) -> int:
    owned = _rows_of(rows)
    return owned[request] if request < len(owned) else 0
