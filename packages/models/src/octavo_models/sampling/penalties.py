"""Which tokens were seen and put out, for the requests that asked for penalties."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.sampling_params import SamplingParams

_FIRST_ROWS = 4


@dataclass(frozen=True, kw_only=True)
class PenaltyRows:
    """What a step needs of the table: fields of `SamplingBatch`, for the rows of the batch that `positions` names."""

    positions: NDArray[np.int64]
    output_counts: Tensor
    seen: Tensor
    presence: NDArray[np.float32]
    frequency: NDArray[np.float32]
    repetition: NDArray[np.float32]


def wants_penalties(params: SamplingParams) -> bool:
    """Whether any of the three is on."""
    return params.presence_penalty != 0 or params.frequency_penalty != 0 or params.repetition_penalty != 1


class PenaltyTable:
    """One row of counts [V] a request, rows packed from 0 on, so that usually the whole table is what a step needs, without a copy.

    Args:
        vocab_size: V.
        device: of the counts.
    """

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._vocab_size = vocab_size
        self._device = device
        self._slots: list[int] = []
        self._counts = torch.zeros(0, vocab_size, dtype=torch.int32, device=device)
        self._seen = torch.zeros(0, vocab_size, dtype=torch.bool, device=device)
        self._values = np.zeros((0, 3), dtype=np.float32)

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, slot: int, params: SamplingParams, token_ids: list[int], num_prompt_tokens: int) -> None:
        """Take in a request that lies in a slot, with what it has put out so far."""
        row = len(self._slots)
        if row == len(self._counts):
            self._grow(max(_FIRST_ROWS, 2 * row))
        self._slots.append(slot)
        ids = torch.tensor(token_ids, dtype=torch.int64, device=self._device)
        self._counts[row] = torch.bincount(ids[num_prompt_tokens:], minlength=self._vocab_size)
        self._seen[row] = False
        self._seen[row, ids] = True
        self._values[row] = (params.presence_penalty, params.frequency_penalty, params.repetition_penalty)

    def move(self, source: int, target: int) -> None:
        """The request of one slot lies in another from now on."""
        if source in self._slots:
            self._slots[self._slots.index(source)] = target

    def remove(self, slot: int) -> None:
        """Forget the request of a slot, if it has a row; the last row takes its place."""
        if slot not in self._slots:
            return
        row, last = self._slots.index(slot), len(self._slots) - 1
        self._slots[row] = self._slots[last]
        self._counts[row] = self._counts[last]
        self._seen[row] = self._seen[last]
        self._values[row] = self._values[last]
        self._slots.pop()

    def record(self, slots: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
        """Count one new output token for each of these slots that has a row."""
        if not self._slots:
            return
        place = {slot: row for row, slot in enumerate(self._slots)}
        pairs = [(place[slot], token) for slot, token in zip(slots.tolist(), tokens.tolist(), strict=True) if slot in place]
        if not pairs:
            return
        rows, ids = torch.tensor(pairs, dtype=torch.int64).to(self._device).unbind(1)
        self._counts[rows, ids] += 1
        self._seen[rows, ids] = True

    def rows_of(self, slots: NDArray[np.int64]) -> PenaltyRows | None:
        """The rows of the requests that lie in these slots; None if none of them has one."""
        place = {slot: position for position, slot in enumerate(slots.tolist())}
        rows = [row for row, slot in enumerate(self._slots) if slot in place]
        if not rows:
            return None
        if len(rows) == len(self._slots):
            counts, seen = self._counts[: len(rows)], self._seen[: len(rows)]
        else:
            index = torch.tensor(rows, dtype=torch.int64).to(self._device)
            counts, seen = self._counts.index_select(0, index), self._seen.index_select(0, index)
        presence, frequency, repetition = self._values[rows].T
        positions = np.array([place[self._slots[row]] for row in rows], dtype=np.int64)
        return PenaltyRows(
            positions=positions, output_counts=counts, seen=seen, presence=presence, frequency=frequency, repetition=repetition
        )

    def _grow(self, capacity: int) -> None:
        more = capacity - len(self._counts)
        self._counts = torch.cat([self._counts, self._counts.new_zeros(more, self._vocab_size)])
        self._seen = torch.cat([self._seen, self._seen.new_zeros(more, self._vocab_size)])
        self._values = np.concatenate([self._values, np.zeros((more, 3), dtype=np.float32)])
