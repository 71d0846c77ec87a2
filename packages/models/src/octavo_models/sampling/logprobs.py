"""Log-probabilities of tokens, and the likeliest ones in their place."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.logprobs import LogprobRows
from octavo.scheduler.plan import AddedRequest
from octavo_models.sampling.blocks import block_maxima, rows_at_once

BLOCK = 128
"""Values whose maximum is taken to find the largest ones of a row without going through it in order."""


@dataclass(frozen=True, kw_only=True)
class LogprobWish:
    """What one request asked for: alternatives to each output token and to each token of its prompt, None for no log-probabilities; and
    how many tokens of the prompt, behind its first, are known already."""

    num_top: int | None
    num_prompt_top: int | None
    num_prompt_known: int


@dataclass(frozen=True, kw_only=True)
class LogprobArrays:
    """On the host: ids int32 [n, 1 + k], values float32 [n, 1 + k] and ranks int32 [n], as in `octavo.logprobs.LogprobRows`."""

    ids: NDArray[np.int32]
    values: NDArray[np.float32]
    ranks: NDArray[np.int32]

    def rows(self, start: int, stop: int, num_top: int) -> LogprobRows:
        """A run of tokens, with the first `num_top` alternatives of each."""
        ids, values = self.ids[start:stop, : 1 + num_top], self.values[start:stop, : 1 + num_top]
        return LogprobRows(
            num_top=ids.shape[1] - 1,
            ids=ids.astype("<i4").tobytes(),
            values=values.astype("<f4").tobytes(),
            ranks=self.ranks[start:stop].astype("<i4").tobytes(),
        )


def logprob_wish(request: AddedRequest) -> LogprobWish | None:
    """What a request asked for; None if nothing."""
    params = request.params
    if params.logprobs is None and params.prompt_logprobs is None:
        return None
    return LogprobWish(num_top=params.logprobs, num_prompt_top=params.prompt_logprobs, num_prompt_known=request.num_prompt_logprobs)


def token_logprobs(logits: Tensor, tokens: Tensor, num_top: int) -> LogprobArrays:
    """Natural log-softmax in float32 of tokens and of the likeliest ones, a few rows at a time; each row's numbers depend on it alone.

    Args:
        logits: [n, V] of any floating type.
        tokens: int64 [n].
        num_top: k, cut to V.
    """
    at_once = rows_at_once(logits)
    parts = [
        _part(some_logits, some_tokens, min(num_top, logits.shape[1]))
        for some_logits, some_tokens in zip(torch.split(logits, at_once), torch.split(tokens, at_once), strict=True)
    ]
    ids, values, ranks = (torch.cat(tensors).cpu().numpy() for tensors in zip(*parts, strict=True))
    return LogprobArrays(ids=ids.astype(np.int32), values=values, ranks=ranks.astype(np.int32))


def join_arrays(parts: list[LogprobArrays]) -> LogprobArrays:
    """One behind the other."""
    return LogprobArrays(
        ids=np.concatenate([part.ids for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        ranks=np.concatenate([part.ranks for part in parts]),
    )


def _part(logits: Tensor, tokens: Tensor, num_top: int) -> tuple[Tensor, Tensor, Tensor]:
    logprobs = torch.log_softmax(logits.float(), dim=1)
    ids = tokens.unsqueeze(1)
    values = logprobs.gather(1, ids)
    # Ones and zeros are added up in float32, exact up to 2**24 tokens: on a CPU that is three times as fast as to count booleans.
    ranks = torch.gt(logprobs, values, out=torch.empty_like(logprobs)).sum(dim=1).to(torch.int64) + 1
    if num_top:
        top_values, top_ids = _largest(logprobs, num_top)
        ids, values = torch.cat([ids, top_ids], dim=1), torch.cat([values, top_values], dim=1)
    return ids, values, ranks


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest of each row, [R, V] -> values and places [R, count], the largest first.

    They lie in the blocks with the largest maxima, as many as are wanted: a plain `topk` goes through all values and takes four times as
    long on a CPU.
    """
    num_values = values.shape[1]
    maxima = block_maxima(values, BLOCK)
    if count >= maxima.shape[1]:
        found = values.topk(count, dim=1)
        return found.values, found.indices
    first = maxima.topk(count, dim=1).indices * BLOCK
    places = (first.unsqueeze(2) + torch.arange(BLOCK, device=values.device)).flatten(1)
    candidates = values.gather(1, places.clamp(max=num_values - 1)).masked_fill_(places >= num_values, -torch.inf)
    found = candidates.topk(count, dim=1)
    return found.values, places.gather(1, found.indices).clamp_(max=num_values - 1)
