"""Additions to single logits: what a request asked for, and the tokens that may not end it yet."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from octavo.scheduler.plan import AddedRequest


@dataclass(frozen=True, kw_only=True)
class LogitBias:
    """Of one request: ids int64 [K] and values float32 [K] that always hold, and ids that must not come before `min_tokens`."""

    ids: NDArray[np.int64]
    values: NDArray[np.float32]
    ending_ids: NDArray[np.int64]
    min_tokens: int

    def at(self, num_output_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and additions for the token that follows so many output tokens; an id may come twice, then both count."""
        if num_output_tokens >= self.min_tokens:
            return self.ids, self.values
        forbidden = np.full(len(self.ending_ids), -np.inf, dtype=np.float32)
        return np.concatenate([self.ids, self.ending_ids]), np.concatenate([self.values, forbidden])


def logit_bias(request: AddedRequest) -> LogitBias | None:
    """What a request adds to logits; None if it never does."""
    bias, min_tokens = request.params.logit_bias, request.params.min_tokens
    ending_ids = request.ending_token_ids if min_tokens > 0 else []
    if not bias and not ending_ids:
        return None
    return LogitBias(
        ids=np.fromiter(bias.keys(), dtype=np.int64, count=len(bias)),
        values=np.fromiter(bias.values(), dtype=np.float32, count=len(bias)),
        ending_ids=np.array(ending_ids, dtype=np.int64),
        min_tokens=min_tokens,
    )


def bias_entries(
    biases: dict[int, LogitBias], slots: NDArray[np.int64], num_output_tokens: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]] | None:
    """Rows, ids and values of a step, [K] each; None where no row adds anything.

    Args:
        biases: by slot.
        slots: int64 [R], of the rows.
        num_output_tokens: int64 [R], before this step.
    """
    rows, ids, values = [], [], []
    for row, (slot, count) in enumerate(zip(slots.tolist(), num_output_tokens.tolist(), strict=True)):
        if (bias := biases.get(slot)) is None:
            continue
        row_ids, row_values = bias.at(count)
        rows.append(np.full(len(row_ids), row, dtype=np.int64))
        ids.append(row_ids)
        values.append(row_values)
    if not any(map(len, ids)):
        return None
    return np.concatenate(rows), np.concatenate(ids), np.concatenate(values)
