"""The built-in sampler.

Order of operations, each on what the one before left:

1. logit bias, and -inf for tokens that may not come (`min_tokens`, `bad_words`, all but `allowed_token_ids`);
2. penalties: repetition, then frequency and presence;
3. greedy rows take the largest logit and are done;
4. temperature, and with it probabilities;
5. min-p, top-k, top-p (`filters`);
6. one draw (`draw`).
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from octavo_models.sampling.blocks import rows_at_once
from octavo_models.sampling.draw import draw, padded_width
from octavo_models.sampling.edits import apply_edits, has_edits
from octavo_models.sampling.filters import least_kept
from octavo_models.sampling.likeliest import likeliest
from octavo_models.sampling.sampler import Sampler, SamplingBatch


class DefaultSampler(Sampler):
    """Greedy, or by temperature, min-p, top-k and top-p; -1 for rows without a finite largest logit."""

    marks_bad_rows: ClassVar[bool] = True

    @property
    def takes_likeliest(self) -> bool:
        return type(self).sample is DefaultSampler.sample

    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        """logits [R, V] of any floating type -> token ids int64 [R]."""
        if has_edits(batch):
            logits = logits.float()
            apply_edits(logits, batch)
        if batch.all_greedy:
            return likeliest(logits)
        drawn = [(rows, self._draw(logits, rows, batch, ranked=ranked)) for rows, ranked in _drawing_rows(batch)]
        num_drawn = sum(len(rows) for rows, _ in drawn)
        tokens = likeliest(logits) if num_drawn < len(logits) else logits.new_empty(len(logits), dtype=torch.int64)
        for rows, ids in drawn:
            tokens.index_copy_(0, rows, ids)
        return tokens

    def _draw(self, logits: Tensor, rows: Tensor, batch: SamplingBatch, *, ranked: bool) -> Tensor:
        """Draw for some rows, int64 [D] -> token ids int64 [D], a part of them at a time."""
        parts = torch.split(rows, rows_at_once(logits))
        return torch.cat([_draw_part(logits, part, batch, ranked=ranked) for part in parts])


def _drawing_rows(batch: SamplingBatch) -> list[tuple[Tensor, bool]]:
    """Rows that draw, and whether they filter by rank."""
    groups = ((batch.plain_rows, False), (batch.ranked_rows, True))
    return [(rows, ranked) for rows, ranked in groups if rows is not None]


def _draw_part(logits: Tensor, rows: Tensor, batch: SamplingBatch, *, ranked: bool) -> Tensor:
    assert batch.temperature is not None
    assert batch.uniforms is not None
    probabilities = _probabilities(logits.index_select(0, rows), batch.temperature.index_select(0, rows))
    floor = _floor(probabilities, rows, batch)
    if ranked:
        floor = _ranked_floor(probabilities[:, : logits.shape[1]], rows, batch, floor)
    if floor is not None:
        probabilities.mul_(torch.ge(probabilities, floor, out=torch.empty_like(probabilities)))
    return draw(probabilities, batch.uniforms.index_select(0, rows))


def _probabilities(logits: Tensor, temperature: Tensor) -> Tensor:
    """softmax(l / temperature), float32, padded with zeros to whole blocks."""
    # The maximum goes first: what is divided by a tiny temperature is then 0 or negative, and cannot overflow to inf - inf.
    shifted = logits.float()
    shifted = shifted - shifted.amax(dim=1, keepdim=True)
    shifted.div_(temperature.unsqueeze(1))
    missing = padded_width(logits.shape[1]) - logits.shape[1]
    if missing:
        shifted = functional.pad(shifted, (0, missing), value=-torch.inf)
    return torch.softmax(shifted, dim=1)


def _floor(probabilities: Tensor, rows: Tensor, batch: SamplingBatch) -> Tensor | None:
    """Least probability that min-p leaves, float32 [D, 1]."""
    if batch.min_p is None:
        return None
    return probabilities.amax(dim=1, keepdim=True) * batch.min_p.index_select(0, rows).unsqueeze(1)


def _ranked_floor(probabilities: Tensor, rows: Tensor, batch: SamplingBatch, floor: Tensor | None) -> Tensor:
    """Least probability that top-k and top-p leave, float32 [D, 1]."""
    vocab_size = probabilities.shape[1]
    if floor is None:
        floor = probabilities.new_zeros(len(rows), 1)
    top_k = rows.new_full((len(rows),), vocab_size) if batch.top_k is None else batch.top_k.index_select(0, rows)
    top_p = floor.new_ones(len(rows)) if batch.top_p is None else batch.top_p.index_select(0, rows)
    return least_kept(probabilities, floor, top_k, top_p)
