"""Which tokens may be drawn: each filter is a least probability, so a row's choice is one comparison and needs no order of tokens.

Tokens as likely as the last one kept are kept as well: which of equals stays would otherwise depend on how a sort breaks ties.
"""

from collections.abc import Iterable
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo_models.sampling.blocks import block_maxima

BLOCK = 256
"""Probabilities whose maximum is taken to find the largest ones of a row without sorting it."""


def least_kept(probabilities: Tensor, floor: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """The least probability that passes `floor`, then top-k, then top-p (Holtzman et al. 2020) over what those leave.

    Args:
        probabilities: float32 [R, V], rows add up to 1.
        floor: float32 [R, 1], least probability so far; 0 where there is none.
        top_k: int64 [R]; V or more is off.
        top_p: float32 [R]; 1 is off.

    Returns:
        float32 [R, 1].
    """
    if probabilities.device.type == "cpu":
        maxima = block_maxima(probabilities, BLOCK)
        rows = zip(probabilities.numpy(), maxima.numpy(), floor.view(-1).tolist(), top_k.tolist(), top_p.tolist(), strict=True)
        return torch.tensor([[least_kept_of_row(*row)] for row in rows], dtype=torch.float32)
    return least_kept_by_sort(probabilities, floor, top_k, top_p)


def least_kept_by_sort(probabilities: Tensor, floor: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """As `least_kept`, by one sort of all rows and without a look at values, so that the host need not wait for the device."""
    vocab_size = probabilities.shape[1]
    ordered = probabilities.sort(dim=1, descending=True).values
    least = torch.maximum(floor, ordered.gather(1, (top_k.clamp(max=vocab_size) - 1).unsqueeze(1)))
    mass = ordered.where(ordered >= least, 0.0).cumsum(dim=1, dtype=torch.float64)
    wanted = mass[:, -1:] * top_p.unsqueeze(1).double()
    edge = torch.searchsorted(mass, wanted).clamp_(max=vocab_size - 1)
    return torch.maximum(least, ordered.gather(1, edge).where(top_p.unsqueeze(1) < 1, 0.0))


def least_kept_of_row(probabilities: NDArray[np.float32], maxima: NDArray[np.float32], floor: float, top_k: int, top_p: float) -> float:
    """As `least_kept`, of one row [V] and the maxima of its blocks, on the host, where looking at values saves sorting all of them.

    A row of NaN keeps its floor: it cannot be drawn from anyway.
    """
    if np.isnan(maxima).any():
        return floor
    least, kept = floor, probabilities
    if top_k < len(probabilities):
        kept = _largest(probabilities, maxima, top_k)
        least = max(least, float(np.partition(kept, -top_k)[-top_k]))
    if least > 0:
        kept = kept[kept >= least]
    if top_p == 1:
        return least
    heads = (_largest(kept, maxima, count) for count in (3 * len(maxima) // 4, len(maxima))) if kept is probabilities else ()
    return max(least, _nucleus_edge(chain(heads, [kept]), float(kept.sum()) * top_p))


def _nucleus_edge(heads: Iterable[NDArray[np.float32]], wanted: float) -> float:
    """The least probability of the smallest set that reaches a mass; 0 where all together do not.

    Args:
        heads: the largest probabilities, more in each than in the one before.
        wanted: the mass.
    """
    for head in heads:
        descending = np.sort(head)[::-1]
        edge = int(np.searchsorted(descending.cumsum(dtype=np.float64), wanted))
        if edge < len(descending):
            return float(descending[edge])
    return 0.0


def _largest(probabilities: NDArray[np.float32], maxima: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """The largest probabilities, at least `count`, and all that equal the last: so many blocks have a maximum that is no smaller."""
    if not 0 < count <= len(maxima):
        return probabilities
    largest: NDArray[np.float32] = probabilities[probabilities >= np.partition(maxima, -count)[-count]]
    return largest
