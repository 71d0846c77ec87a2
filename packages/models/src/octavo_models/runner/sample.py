"""From the logits of a step to its tokens, and what is said about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.logprobs import LogprobRows
from octavo_models.runner.batch import BatchState
from octavo_models.runner.inputs import SamplingRows
from octavo_models.runner.pool import KVPool
from octavo_models.sampling import Sampler, SamplingBatch
from octavo_models.sampling.edits import has_edits
from octavo_models.sampling.logprobs import token_logprobs

BAD_LOGITS = "the model gave NaN or infinite logits: its weights are damaged, or too large for this dtype (float16 is the narrowest)"
NOTHING_LEFT = (
    "no token is left to draw: allowed_token_ids, bad_words, min_tokens, logit_bias and logits processors forbid all of them together, "
    "or a processor made NaN"
)

_PLACEHOLDER = 0


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """What a step sampled, by request id: fields of `StepResult`."""

    token_ids: dict[str, list[int]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    sound: list[str] = field(default_factory=list)
    logprobs: dict[str, LogprobRows] = field(default_factory=dict)


@dataclass(frozen=True)
class SamplingWish:
    """What it takes to sample the rows of a step.

    Attributes:
        batch: parameters of the rows.
        logprobs: row to alternatives, of the rows that asked for log-probabilities.
        likeliest_only: whether the token of each row's largest logit is enough.
    """

    batch: SamplingBatch
    logprobs: dict[int, int]
    likeliest_only: bool


@dataclass(frozen=True, kw_only=True)
class RowSampler:
    """Processes logits, draws, and remembers what was drawn.

    Attributes:
        state: follows the plans; gets the tokens.
        sampler: of tokens.
        pool: that the forward wrote.
    """

    state: BatchState
    sampler: Sampler
    pool: KVPool

    def wish(self, rows: SamplingRows) -> SamplingWish:
        """What of the forward it takes to sample these rows."""
        sampling = self.state.sampling
        batch = sampling.batch(rows.slots, rows.num_output_tokens)
        wanted = _wanted_logprobs(self.state, rows)
        needs_logits = not batch.all_greedy or has_edits(batch) or bool(wanted) or len(sampling.processors) > 0
        return SamplingWish(batch, wanted, likeliest_only=self.sampler.takes_likeliest and not needs_logits)

    def sample(self, outputs: Tensor, rows: SamplingRows, wish: SamplingWish) -> Sampled:
        """One token or one error for each row.

        Args:
            outputs: logits [C, V], which may be overwritten; where likeliest tokens are all that is wished for, these: int64 [C].
            rows: which.
            wish: for them.
        """
        if wish.likeliest_only:
            return self._settle(outputs.cpu().numpy(), rows)
        logits, batch, wanted = outputs, wish.batch, wish.logprobs
        sampling = self.state.sampling
        # Bans may leave nothing of a row, or hide what is broken in it: whether the model is to blame is seen only before.
        may_ban = batch.bias_rows is not None or batch.restricted_rows is not None or len(sampling.processors) > 0
        sound = logits.amax(dim=1).isfinite() if may_ban else None
        plain = logits.index_select(0, _on_device(list(wanted), logits)) if wanted else None
        logits, failures = self._process(logits, rows)
        sampled = self._draw(logits, batch)
        tokens = (sampled if sound is None else sampled.where(sound, -1)).cpu().numpy()
        tokens[list(failures)] = -1
        result = self._settle(tokens, rows, None if sound is None else sound.cpu().numpy(), failures)
        if plain is not None:
            _add_logprobs(result, plain, rows, wanted, tokens)
        return result

    def _settle(
        self,
        tokens: NDArray[np.int64],
        rows: SamplingRows,
        sound: NDArray[np.bool_] | None = None,
        failures: Mapping[int, str] = MappingProxyType({}),
    ) -> Sampled:
        """Remember tokens, and let requests fail that have none.

        Args:
            tokens: int64 [C], -1 where there is none.
            rows: whose.
            sound: bool [C], whether the model's own logits were; None where they were wherever there is a token.
            failures: what went wrong beside the model, by row.
        """
        # A request that failed is removed soon; until then its row keeps the length that plans count on.
        self.state.append(rows.slots, tokens.clip(min=_PLACEHOLDER))
        drawn = zip(rows.request_ids, tokens.tolist(), strict=True)
        result = Sampled(token_ids={name: [token] for name, token in drawn if token >= 0})
        for row in np.flatnonzero(tokens < 0).tolist():
            name = rows.request_ids[row]
            if sound is not None and sound[row]:
                result.errors[name] = failures.get(row, NOTHING_LEFT)
                result.sound.append(name)
            else:
                self.fail(name, result)
        return result

    def fail(self, request_id: str, result: Sampled) -> None:
        """Let a request fail for which the model gave no numbers, and make its blocks fit for others."""
        result.token_ids.pop(request_id, None)
        result.errors[request_id] = BAD_LOGITS
        (slot,) = self.state.slots_of([request_id]).tolist()
        self.pool.make_finite([table.row(slot) for table in self.state.block_tables])

    def _process(self, logits: Tensor, rows: SamplingRows) -> tuple[Tensor, dict[int, str]]:
        """Run logits processors on the rows that have some; what went wrong, by row."""
        state, processors = self.state, self.state.sampling.processors
        failures: dict[int, str] = {}
        if not len(processors):
            return logits, failures
        for row, slot in enumerate(rows.slots.tolist()):
            if not processors.holds(slot):
                continue
            logits = logits.float()
            tokens = state.tokens.row(slot).view()
            tokens.flags.writeable = False
            num_prompt = int(state.num_prompt_tokens[slot])
            problem = processors.apply(slot, logits[row], tokens[:num_prompt], tokens[num_prompt:])
            if problem is not None:
                failures[row] = problem
        return logits, failures

    def _draw(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        """Tokens int64 [C], -1 for rows that cannot be sampled."""
        if self.sampler.marks_bad_rows:
            return self.sampler.sample(logits, batch)
        bad = logits.amax(dim=1).isfinite().logical_not()
        return self.sampler.sample(logits.masked_fill(bad.unsqueeze(1), 0.0), batch).masked_fill(bad, -1)


def _on_device(values: list[int], logits: Tensor) -> Tensor:
    """int64 [len(values)] beside the logits."""
    return torch.tensor(values, dtype=torch.int64, device=logits.device)


def _wanted_logprobs(state: BatchState, rows: SamplingRows) -> dict[int, int]:
    """Row to alternatives, of the rows that asked for log-probabilities."""
    wishes = state.sampling.logprobs
    if not wishes:
        return {}
    by_row = ((row, wishes.get(slot)) for row, slot in enumerate(rows.slots.tolist()))
    return {row: wish.num_top for row, wish in by_row if wish is not None and wish.num_top is not None}


def _add_logprobs(result: Sampled, logits: Tensor, rows: SamplingRows, wanted: dict[int, int], tokens: NDArray[np.int64]) -> None:
    """Log-probabilities of what was drawn in the rows that asked for them; logits [len(wanted), V] are the model's own."""
    chosen = tokens[list(wanted)].clip(min=_PLACEHOLDER)
    arrays = token_logprobs(logits, _on_device(chosen.tolist(), logits), max(wanted.values()))
    for place, (row, num_top) in enumerate(wanted.items()):
        name = rows.request_ids[row]
        if name in result.token_ids:
            result.logprobs[name] = arrays.rows(place, place + 1, num_top)
