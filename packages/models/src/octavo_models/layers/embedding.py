"""Token embedding and language head, split over ranks by vocabulary."""

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from octavo.errors import CheckpointError
from octavo_models.layers.linear import Linear, LinearMethod
from octavo_models.layers.parallel import SINGLE, ParallelGroup, Part, WeightLayout, empty_parameter


class VocabularyEmbedding(nn.Module):
    """`weight` [V, E] by token id. With several ranks each gives zeros for ids of the others, and the sum over ranks is the embedding."""

    def __init__(self, vocab_size: int, hidden_size: int, *, dtype: torch.dtype, group: ParallelGroup = SINGLE) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.group = group
        self.weight = empty_parameter(self.layout("weight").local_shape(group), dtype)

    def layout(self, parameter: str) -> WeightLayout:  # noqa: ARG002  (there is but one)
        """How `weight` is made of a checkpoint's tensor."""
        return WeightLayout(parts=(Part(self.vocab_size),), columns=self.hidden_size, axis=0)

    def forward(self, token_ids: Tensor) -> Tensor:
        """token_ids int64 [N] -> [N, E]."""
        if self.group.size == 1:
            return functional.embedding(token_ids, self.weight)
        rows = Part(self.vocab_size).shard(self.group)
        is_elsewhere = (token_ids < rows.start) | (token_ids >= rows.stop)
        local = (token_ids - rows.start).masked_fill(is_elsewhere, 0)
        return functional.embedding(local, self.weight).masked_fill(is_elsewhere.unsqueeze(-1), 0)


class VocabularyHead(Linear):
    """Hidden states [R, E] -> logits [R, V] of this rank.

    Args:
        embedding: of the same model; gives the sizes and, where tied, the weight.
        tied: whether the weight is the embedding's own (the same parameter, held once).
        dtype: of the weight.
        method: stores and multiplies.
    """

    def __init__(self, embedding: VocabularyEmbedding, *, tied: bool, dtype: torch.dtype, method: LinearMethod | None = None) -> None:
        with torch.device("meta") if tied else nullcontext():
            super().__init__(
                embedding.hidden_size, [embedding.vocab_size], split="column", dtype=dtype, group=embedding.group, method=method
            )
        if tied:
            self.weight = embedding.weight

    def untie(self, weight: Tensor) -> bool:
        """Take a checkpoint's own head, float [V, E], where its content is not the embedding's. Returns whether it was taken."""
        if tuple(weight.shape) != (self.parts[0].size, self.in_features):
            raise CheckpointError(f"the head has shape {tuple(weight.shape)}, the embedding {(self.parts[0].size, self.in_features)}")
        own = weight[self.parts[0].shard(self.group)].to(self.weight)
        if torch.equal(own, self.weight):
            return False
        self.weight = nn.Parameter(own.clone(), requires_grad=False)
        return True
