"""The requests that the runner holds: one slot each, packed from 0 on, in arrays that a step reads for all of them at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from octavo.scheduler.plan import AddedRequest, ContinuedRequest, StepPlan
from octavo_models.runner.table import RowTable
from octavo_models.sampling.batch import SamplingState

_FIRST_TOKENS = 512
_FIRST_BLOCKS = 32


class BatchState:
    """Follows plans: removals, then additions, then continuations.

    Args:
        max_num_seqs: number of slots.
        num_groups: KV groups, each with a block table of its own.
        sampling: what the sampler keeps of the same slots.

    Attributes:
        tokens: prompt, then output of each request; the runner puts what it samples behind it.
        num_prompt_tokens: int64 [slots].
        num_computed_tokens: int64 [slots], tokens whose KV is in the cache before the step, of requests that run in it.
        block_tables: one a KV group.
    """

    def __init__(self, *, max_num_seqs: int, num_groups: int, sampling: SamplingState) -> None:
        self.tokens = RowTable(max_num_seqs, _FIRST_TOKENS)
        self.num_prompt_tokens: NDArray[np.int64] = np.zeros(max_num_seqs, dtype=np.int64)
        self.num_computed_tokens: NDArray[np.int64] = np.zeros(max_num_seqs, dtype=np.int64)
        self.block_tables = tuple(RowTable(max_num_seqs, _FIRST_BLOCKS) for _ in range(num_groups))
        self.sampling = sampling
        self._max_num_seqs = max_num_seqs
        self._slots: dict[str, int] = {}
        self._request_ids: list[str] = []

    def __len__(self) -> int:
        return len(self._request_ids)

    def slots_of(self, request_ids: Sequence[str]) -> NDArray[np.int64]:
        """int64 [len(request_ids)]"""
        return np.fromiter(map(self._slots.__getitem__, request_ids), dtype=np.int64, count=len(request_ids))

    def apply(self, plan: StepPlan) -> None:
        """Become what the plan says is there before the step runs."""
        for request_id in plan.removed:
            self._remove(request_id)
        for added in plan.added:
            self._add(added)
        self._continue(plan.continued)

    def append(self, slots: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
        """Put one sampled token behind each of these requests."""
        self.tokens.append(slots, tokens)
        self.sampling.record(slots, tokens)

    def _add(self, request: AddedRequest) -> None:
        assert request.request_id not in self._slots, f"request {request.request_id} is added twice"
        assert len(self) < self._max_num_seqs, f"a plan holds more than {self._max_num_seqs} requests"
        slot = len(self._request_ids)
        self._slots[request.request_id] = slot
        self._request_ids.append(request.request_id)
        self.tokens.extend(slot, request.token_ids)
        self.num_prompt_tokens[slot] = request.num_prompt_tokens
        self.num_computed_tokens[slot] = request.num_computed_tokens
        for table, block_ids in zip(self.block_tables, request.block_ids, strict=True):
            table.extend(slot, block_ids)
        self.sampling.add(slot, request)

    def _continue(self, requests: Sequence[ContinuedRequest]) -> None:
        slots = self.slots_of([request.request_id for request in requests])
        self.num_computed_tokens[slots] = [request.num_computed_tokens for request in requests]
        grown = [request for request in requests if any(request.new_block_ids)]
        for request in grown:
            for table, block_ids in zip(self.block_tables, request.new_block_ids, strict=True):
                table.extend(self._slots[request.request_id], block_ids)

    def _remove(self, request_id: str) -> None:
        """Forget a request; the last one moves into its slot."""
        slot, last = self._slots.pop(request_id), len(self._request_ids) - 1
        for table in self._tables():
            table.clear(slot)
        self.sampling.remove(slot)
        moved = self._request_ids.pop()
        if slot == last:
            return
        self._slots[moved] = slot
        self._request_ids[slot] = moved
        for table in self._tables():
            table.move(last, slot)
        self.num_prompt_tokens[slot] = self.num_prompt_tokens[last]
        self.sampling.move(last, slot)

    def _tables(self) -> tuple[RowTable, ...]:
        return (self.tokens, *self.block_tables)
