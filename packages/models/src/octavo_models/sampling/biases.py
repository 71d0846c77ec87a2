"""Edits of single logits: what a request asked for, the tokens that may not come yet, and those that alone may come."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from octavo.scheduler.plan import AddedRequest
from octavo_models.sampling.bad_sequences import BadSequences


@dataclass(frozen=True, kw_only=True)
class LogitBias:
    """Of one request: ids int64 [K] and values float32 [K] that always hold, ids that must not come before `min_tokens`, sequences that
    must not be completed, and ids int64 that alone may come, each once, or None."""

    ids: NDArray[np.int64]
    values: NDArray[np.float32]
    ending_ids: Sequence[int]
    min_tokens: int
    bad_sequences: BadSequences | None
    allowed_ids: NDArray[np.int64] | None

    def at(self, num_output_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and additions for the token that follows so many output tokens; an id may come twice, then both count."""
        forbidden = list(self.ending_ids) if num_output_tokens < self.min_tokens else []
        if self.bad_sequences is not None:
            forbidden += self.bad_sequences.forbidden()
        if not forbidden:
            return self.ids, self.values
        minus_infinity = np.full(len(forbidden), -np.inf, dtype=np.float32)
        return np.concatenate([self.ids, np.array(forbidden, dtype=np.int64)]), np.concatenate([self.values, minus_infinity])


class BiasEntries(NamedTuple):
    """Additions of a step: rows int64, ids int64 and values float32, [K] each."""

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    values: NDArray[np.float32]


class AllowedEntries(NamedTuple):
    """What alone may come in a step: rows int64 [A] that are restricted, and rows and ids int64 [K] that may come in them."""

    restricted_rows: NDArray[np.int64]
    rows: NDArray[np.int64]
    ids: NDArray[np.int64]


def logit_bias(request: AddedRequest, vocab_size: int) -> LogitBias | None:
    """What a request edits; None if it never does. Sequences with tokens that the model does not have never come anyway."""
    params = request.params
    ending_ids = request.ending_token_ids if params.min_tokens > 0 else []
    sequences = [ids for ids in request.bad_sequences if ids and max(ids) < vocab_size]
    if not params.logit_bias and not ending_ids and not sequences and params.allowed_token_ids is None:
        return None
    bias, allowed = params.logit_bias, params.allowed_token_ids
    return LogitBias(
        ids=np.fromiter(bias.keys(), dtype=np.int64, count=len(bias)),
        values=np.fromiter(bias.values(), dtype=np.float32, count=len(bias)),
        ending_ids=ending_ids,
        min_tokens=params.min_tokens,
        bad_sequences=BadSequences(sequences, request.token_ids[request.num_prompt_tokens :]) if sequences else None,
        allowed_ids=None if allowed is None else np.unique(np.array(allowed, dtype=np.int64)),
    )


def bias_entries(biases: dict[int, LogitBias], slots: NDArray[np.int64], num_output_tokens: NDArray[np.int64]) -> BiasEntries | None:
    """Additions of a step; None where no row adds anything.

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
    return BiasEntries(np.concatenate(rows), np.concatenate(ids), np.concatenate(values))


def allowed_entries(biases: dict[int, LogitBias], slots: NDArray[np.int64]) -> AllowedEntries | None:
    """What alone may come in a step whose rows lie in these slots; None where every row may have all tokens."""
    restricted, ids = [], []
    for row, slot in enumerate(slots.tolist()):
        if (bias := biases.get(slot)) is not None and bias.allowed_ids is not None:
            restricted.append(row)
            ids.append(bias.allowed_ids)
    if not restricted:
        return None
    rows = np.array(restricted, dtype=np.int64)
    return AllowedEntries(rows, rows.repeat([len(row_ids) for row_ids in ids]), np.concatenate(ids))
