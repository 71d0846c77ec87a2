"""Working on logits in parts: runs of neighbouring tokens, and a few rows at a time."""

import torch
from torch import Tensor

CACHED_BYTES = 2 << 20
"""float32 values that a CPU works on at a time, so that the passes over them stay in its cache."""


def rows_at_once(values: Tensor) -> int:
    """How many rows of [R, V] to work on at a time: a few on a CPU, all elsewhere."""
    if values.device.type != "cpu":
        return max(1, len(values))
    return max(1, CACHED_BYTES // (4 * values.shape[1]))


def block_maxima(values: Tensor, size: int) -> Tensor:
    """[R, V] -> [R, ceil(V / size)], the last block being what is left; NaN wins."""
    whole = values.shape[1] // size * size
    tail = [values[:, whole:].amax(dim=1, keepdim=True)] if whole < values.shape[1] else []
    head = [torch.unflatten(values[:, :whole], 1, (-1, size)).amax(dim=2)] if whole else []
    return torch.cat(head + tail, dim=1)
