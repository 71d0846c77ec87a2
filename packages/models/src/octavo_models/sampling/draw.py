"""Draws by the inverse of the distribution function: one uniform a row, tokens in the order of the vocabulary."""

import torch
from torch import Tensor
from torch.nn import functional

BLOCK = 256
"""Weights that are added up at once; the width of what `draw` takes is a multiple of it."""


def padded_width(vocab_size: int) -> int:
    """The vocabulary's size rounded up to whole blocks."""
    return -(-vocab_size // BLOCK) * BLOCK


def draw(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Token t of row r is drawn with probability weights[r, t] / sum(weights[r]); tokens of weight 0 never are.

    The point `u * sum` is looked up among the running sums of blocks, then within its block. A row's sums depend on that row alone.

    Args:
        weights: float32 [R, W], not negative, W a multiple of `BLOCK`.
        uniforms: float64 [R] in [0, 1).

    Returns:
        int64 [R]; -1 for rows whose weights do not add up to a positive number (NaN).
    """
    blocks = torch.unflatten(weights, 1, (-1, BLOCK))
    block_ends = blocks.sum(dim=2).cumsum(dim=1, dtype=torch.float64)
    point = block_ends[:, -1:] * uniforms.unsqueeze(1)
    block = _first_beyond(block_ends, point)
    block_start = functional.pad(block_ends, (1, 0)).gather(1, block)
    inside = blocks.gather(1, block.unsqueeze(2).expand(-1, -1, BLOCK)).squeeze(1).cumsum(dim=1, dtype=torch.float64)
    token = block * BLOCK + _first_beyond(inside, point - block_start)
    return torch.where(block_ends[:, -1:] > 0, token, -1).squeeze(1)


def _first_beyond(ends: Tensor, point: Tensor) -> Tensor:
    """Index of the first running sum above `point`, and no further than where the last weight above 0 is: ends [R, K], point [R, 1]."""
    last = torch.searchsorted(ends, ends[:, -1:].contiguous())
    return torch.minimum(torch.searchsorted(ends, point, right=True), last).clamp_(max=ends.shape[1] - 1)
