"""Causal attention, dense and over a paged cache; grouped queries, optional sliding window and soft cap, in float32."""

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionSpec, AttentionStep


def causal_attention(query: Tensor, key: Tensor, value: Tensor, spec: AttentionSpec) -> Tensor:
    """out_i = sum_j softmax_j(cap(scale * q_i . k_j)) v_j over the keys j that i sees: 0 <= i - j, and i - j < window if there is one.

    Args:
        query: [Q, H, D], the last Q of L tokens.
        key, value: [L, G, D]; query head h reads KV head h // (H / G).
        spec: of the layer.

    Returns:
        float32 [Q, H, D].
    """
    group_size = spec.num_heads // spec.num_kv_heads
    keys = key.float().repeat_interleave(group_size, dim=1)
    values = value.float().repeat_interleave(group_size, dim=1)
    num_queries, num_keys = query.shape[0], key.shape[0]
    distance = torch.arange(num_keys - num_queries, num_keys)[:, None] - torch.arange(num_keys)
    seen = distance >= 0
    if spec.sliding_window is not None:
        seen &= distance < spec.sliding_window
    scores = torch.einsum("qhd,khd->hqk", query.float(), keys) * spec.scale
    if spec.soft_cap is not None:
        scores = spec.soft_cap * torch.tanh(scores / spec.soft_cap)
    weights = scores.masked_fill(~seen.to(scores.device), float("-inf")).softmax(dim=-1)
    return torch.einsum("hqk,khd->qhd", weights, values)


def paged_attention(query: Tensor, cache: Tensor, step: AttentionStep, spec: AttentionSpec) -> Tensor:
    """`causal_attention` for each request of a step, whose KV the cache holds already.

    Args:
        query: [N, H, D].
        cache: [B, 2, G, S, D], keys first.
        step: who owns which rows and blocks.
        spec: of the layer.

    Returns:
        float32 [N, H, D]; zero for rows of nobody.
    """
    out = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
    starts, lengths = step.query_start.tolist(), step.seq_lens.tolist()
    for request, length in enumerate(lengths):
        first, last = starts[request], starts[request + 1]
        if last == first or length == 0:
            continue
        pages = cache[step.block_table[request].long()]
        keys, values = pages.permute(1, 0, 3, 2, 4).flatten(1, 2)[:, :length]
        out[first:last] = causal_attention(query[first:last], keys, values, spec)
    return out
