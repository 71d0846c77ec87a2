"""From logits to a token: penalties, temperature, filters and the draw, in the order of this file.

Rows R, vocabulary V. A filtered token has the logit -inf. Tokens as likely as the last one kept are kept as well.
"""

import torch
from torch import Tensor


def apply_penalties(logits: Tensor, output_counts: Tensor, seen: Tensor, presence: Tensor, frequency: Tensor, repetition: Tensor) -> Tensor:
    """First the repetition penalty (Keskar et al. 2019): seen logits above 0 are divided by it, other seen ones multiplied.
    Then OpenAI's: logit - frequency * count - presence * (count > 0).

    Args:
        logits: [R, V].
        output_counts: integer [R, V], how often a token was put out.
        seen: bool [R, V], in prompt or output.
        presence, frequency, repetition: float32 [R].

    Returns:
        float32 [R, V].
    """
    wide = logits.float()
    factor = repetition[:, None]
    repeated = torch.where(wide > 0, wide / factor, wide * factor)
    wide = torch.where(seen, repeated, wide)
    return wide - frequency[:, None] * output_counts - presence[:, None] * (output_counts > 0)


def apply_temperature(logits: Tensor, temperature: Tensor) -> Tensor:
    """logits / temperature, float32 [R, V]; temperature float32 [R], above 0."""
    return logits.float() / temperature[:, None]


def keep_min_p(logits: Tensor, min_p: Tensor) -> Tensor:
    """Keep tokens whose probability is at least min_p times the likeliest one's; min_p float32 [R], 0 keeps all."""
    probabilities = logits.float().softmax(dim=-1)
    least = min_p[:, None] * probabilities.max(dim=-1, keepdim=True).values
    return logits.masked_fill(probabilities < least, float("-inf"))


def keep_top_k(logits: Tensor, top_k: Tensor) -> Tensor:
    """Keep the k likeliest tokens; top_k int64 [R], V and more keeps all."""
    ordered = logits.sort(dim=-1, descending=True).values
    last = ordered.gather(1, top_k.clamp(max=logits.shape[1])[:, None] - 1)
    return logits.masked_fill(logits < last, float("-inf"))


def keep_top_p(logits: Tensor, top_p: Tensor) -> Tensor:
    """Keep the smallest set of likeliest tokens whose probability reaches p (Holtzman et al. 2020); top_p float32 [R], 1 keeps all."""
    ordered = logits.sort(dim=-1, descending=True).values
    probabilities = ordered.double().softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    kept = before < top_p[:, None].double()
    last = ordered.masked_fill(~kept, float("inf")).min(dim=-1, keepdim=True).values
    return torch.where(top_p[:, None] < 1, logits.masked_fill(logits < last, float("-inf")), logits)


def draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """The first token at which the running sum of probabilities, in the order of the vocabulary, exceeds the row's uniform.

    Args:
        logits: [R, V].
        uniforms: float64 [R] in [0, 1).

    Returns:
        int64 [R].
    """
    ends = logits.double().softmax(dim=-1).cumsum(dim=-1)
    point = uniforms[:, None] * ends[:, -1:]
    return torch.searchsorted(ends, point, right=True).squeeze(1)
