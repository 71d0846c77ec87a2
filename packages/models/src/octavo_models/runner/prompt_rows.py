"""The tokens of prompts whose log-probabilities a step brings.

Shape legend: M such tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.logprobs import LogprobRows
from octavo.scheduler.plan import StepPlan
from octavo_models.runner.batch import BatchState
from octavo_models.sampling.logprobs import join_arrays, token_logprobs

HEAD_BYTES = 64 << 20
"""float32 logits of prompts that are held at once: few enough to be no matter, enough that the head's weights are read seldom."""


@dataclass(frozen=True, kw_only=True)
class PromptRows:
    """Tokens of prompts, request by request.

    Attributes:
        request_ids: whose.
        counts: tokens of each.
        num_top: alternatives that each asked for.
        token_rows: int64 [M], the row of the token before each, among the tokens of the step; on the device.
        token_ids: int64 [M], on the device.
    """

    request_ids: list[str]
    counts: list[int]
    num_top: list[int]
    token_rows: Tensor
    token_ids: Tensor


def prompt_rows(
    plan: StepPlan, state: BatchState, slots: NDArray[np.int64], first_rows: NDArray[np.int64], device: torch.device
) -> PromptRows | None:
    """What a step brings of prompts; None where nobody asked for any, or it is known already.

    Args:
        plan: of the step.
        state: follows it already.
        slots: int64 [R], of its requests.
        first_rows: int64 [R], where each one's tokens begin.
        device: of the result.
    """
    request_ids, counts, num_top, rows, ids = [], [], [], [], []
    for (name, count), slot, first_row in zip(plan.num_tokens.items(), slots.tolist(), first_rows.tolist(), strict=True):
        wish = state.sampling.logprobs.get(slot)
        if wish is None or wish.num_prompt_top is None:
            continue
        computed = int(state.num_computed_tokens[slot])
        start = max(computed, wish.num_prompt_known)
        stop = min(computed + count, int(state.num_prompt_tokens[slot]) - 1)
        if start >= stop:
            continue
        request_ids.append(name)
        counts.append(stop - start)
        num_top.append(wish.num_prompt_top)
        rows.append(np.arange(first_row + start - computed, first_row + stop - computed))
        ids.append(state.tokens.row(slot)[start + 1 : stop + 1])
    if not rows:
        return None
    return PromptRows(
        request_ids=request_ids,
        counts=counts,
        num_top=num_top,
        token_rows=torch.from_numpy(np.concatenate(rows)).to(device),
        token_ids=torch.from_numpy(np.concatenate(ids).astype(np.int64)).to(device),
    )


def prompt_logprobs(head: Callable[[Tensor], Tensor], rows: PromptRows, vocab_size: int) -> dict[str, LogprobRows | None]:
    """Log-probabilities by request; None where the model gave NaN.

    Args:
        head: from rows of the step, int64 [m], to their logits [m, V]; called with as many as `HEAD_BYTES` allows.
        rows: which.
        vocab_size: V.
    """
    at_once, most = max(1, HEAD_BYTES // (4 * vocab_size)), max(rows.num_top)
    parts = zip(torch.split(rows.token_rows, at_once), torch.split(rows.token_ids, at_once), strict=True)
    arrays = join_arrays([token_logprobs(head(some_rows), some_ids, most) for some_rows, some_ids in parts])
    found: dict[str, LogprobRows | None] = {}
    start = 0
    for name, count, num_top in zip(rows.request_ids, rows.counts, rows.num_top, strict=True):
        is_sound = not np.isnan(arrays.values[start : start + count, 0]).any()
        found[name] = arrays.rows(start, start + count, num_top) if is_sound else None
        start += count
    return found
