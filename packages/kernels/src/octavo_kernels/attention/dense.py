"""Attention over gathered keys: torch's own kernel, or, where scores are capped, which it cannot do, in plain torch."""

import torch
from torch import Tensor
from torch.nn import functional

from octavo_kernels.attention.backend import AttentionSpec


def attend_dense(spec: AttentionSpec, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(cap(scale * q k^T) + mask) v.

    Args:
        spec: of the layer; its window is the mask's business.
        query: [..., Q, D].
        keys, values: [..., K, D], leading dimensions as those of the query.
        mask: additive, to be broadcast to [..., Q, K]; None for plainly causal rows, where Q = K.

    Returns:
        [..., Q, D] of query's type.
    """
    if spec.soft_cap is None:
        return functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, is_causal=mask is None, scale=spec.scale)
    scores = (query @ keys.transpose(-2, -1)).float() * spec.scale
    capped = spec.soft_cap * torch.tanh(scores / spec.soft_cap)
    if mask is None:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        weights = capped.masked_fill(hidden, float("-inf")).softmax(dim=-1)
    else:
        weights = (capped + mask).softmax(dim=-1)
    return weights.to(values.dtype) @ values
