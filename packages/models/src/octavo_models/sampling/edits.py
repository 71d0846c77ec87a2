"""What is added to logits before anything is chosen: biases, forbidden tokens, penalties. In place, on float32."""

import torch
from torch import Tensor

from octavo_models.sampling.blocks import rows_at_once
from octavo_models.sampling.sampler import SamplingBatch


def has_edits(batch: SamplingBatch) -> bool:
    """Whether any logit of the step is edited."""
    return batch.bias_rows is not None or batch.restricted_rows is not None or batch.penalty_rows is not None


def apply_edits(logits: Tensor, batch: SamplingBatch) -> None:
    """Biases first, then what alone may come, then penalties; logits float32 [R, V], changed in place."""
    if batch.bias_rows is not None:
        assert batch.bias_ids is not None
        assert batch.bias_values is not None
        logits.index_put_((batch.bias_rows, batch.bias_ids), batch.bias_values, accumulate=True)
    if batch.restricted_rows is not None:
        assert batch.allowed_rows is not None
        assert batch.allowed_ids is not None
        kept = logits[batch.allowed_rows, batch.allowed_ids]
        logits.index_fill_(0, batch.restricted_rows, -torch.inf)
        logits.index_put_((batch.allowed_rows, batch.allowed_ids), kept)
    if batch.penalty_rows is not None:
        step = rows_at_once(logits)
        for start in range(0, len(batch.penalty_rows), step):
            _penalize(logits, batch, slice(start, start + step))


def _penalize(logits: Tensor, batch: SamplingBatch, part: slice) -> None:
    """Penalties of a part of `penalty_rows`.

    Repetition penalty over prompt and output (Keskar et al. 2019, section 4.1): l <- l / r where l > 0 and l * r where not, for tokens
    seen. Then OpenAI's two over the output: l <- l - frequency * count - presence * (count > 0).
    """
    assert batch.penalty_rows is not None
    rows = batch.penalty_rows[part]
    chosen = logits.index_select(0, rows)
    if batch.repetition_penalty is not None:
        assert batch.seen is not None
        repetition = batch.repetition_penalty[part].unsqueeze(1)
        # The two signs apart and added up: on a CPU that is faster than to choose between two whole products.
        repeated = chosen.clamp(min=0).div_(repetition).add_(chosen.clamp(max=0).mul_(repetition))
        chosen = torch.where(batch.seen[part], repeated, chosen)
    if batch.frequency_penalty is not None:
        assert batch.output_counts is not None
        chosen -= batch.frequency_penalty[part].unsqueeze(1) * batch.output_counts[part]
    if batch.presence_penalty is not None:
        assert batch.output_counts is not None
        chosen -= batch.presence_penalty[part].unsqueeze(1) * batch.output_counts[part].clamp(max=1)
    logits.index_copy_(0, rows, chosen)
