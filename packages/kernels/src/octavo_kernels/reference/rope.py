"""Rotary position embedding (Su et al. 2021), dimensions paired as in GPT-NeoX: i with i + D' / 2."""

import torch
from torch import Tensor
from torch.nn import functional


def rotate(heads: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    """Turn each pair (a, b) of a head's first D' dimensions by its position's angle: (a cos - b sin, b cos + a sin), in float32.

    Args:
        heads: [N, H, D].
        positions: int64 [N].
        table: float32 [P, D'], D' / 2 cosines and then D' / 2 sines of each position; D' <= D.

    Returns:
        [N, H, D] of the type of heads; dimensions from D' on are left as they are.
    """
    half = table.shape[1] // 2
    cosine, sine = functional.embedding(positions, table).unsqueeze(1).chunk(2, dim=-1)
    first, second = heads[..., :half].float(), heads[..., half : 2 * half].float()
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return torch.cat((turned.to(heads.dtype), heads[..., 2 * half :]), dim=-1)
