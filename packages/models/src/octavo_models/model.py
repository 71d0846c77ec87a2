"""What a model is to the runner: pieces of pure computation, with attention as the border between them.

Shape legend: N tokens of a step, E hidden size, H query heads, G KV heads, D head size, V vocabulary.

A layer says what happens before attention and after it. Between the two the runner calls the attention backend, which
reads more than this step's rows. What a layer hands on beside its border is the carry: tensors [N, ...] (the residual
stream, usually alone). Pieces keep no state and touch no tensor but their arguments and their weights, so that one
compiled piece can serve every layer.

`PiecewiseLayer` is the usual layer, with attention as its one border. A layer without a border, with several, or with one that
is no attention over pages is a `DecoderLayer`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from octavo.model.config import ModelConfig
from octavo_kernels.attention import AttentionSpec, AttentionStep
from octavo_models.sampling.likeliest import likeliest

Carry = tuple[Tensor, ...]


class AttentionInputs(NamedTuple):
    """What attention takes of a layer: query [N, H, D], key and value [N, G, D], rotated."""

    query: Tensor
    key: Tensor
    value: Tensor


@dataclass(frozen=True, kw_only=True)
class CarrySpec:
    """One tensor of the carry: [N, width] of the model's type unless `dtype` says otherwise."""

    name: str
    width: int
    dtype: torch.dtype | None = None


class Border(ABC):
    """An opaque call between two pieces that is no attention over pages, such as a mixer with a state a request.

    It may read more than this step's rows, keep what it likes, and have shapes that depend on the data.

    Attributes:
        inputs: what it takes of the piece before it, [N, width] each.
        output: what the piece after it is given, [N, width].
    """

    inputs: tuple[CarrySpec, ...]
    output: CarrySpec

    @abstractmethod
    def run(self, step: AttentionStep, inputs: tuple[Tensor, ...], out: Tensor) -> None:
        """Write every row of `out`; `step` says which rows belong to whom. Inputs are at the same place in every step."""


class DecoderLayer(nn.Module, ABC):
    """One layer: pieces 0 to B with its B borders between them.

    Attributes:
        rotary_index: which of the model's rotary tables its pieces are given.
    """

    rotary_index: int = 0

    @property
    @abstractmethod
    def borders(self) -> tuple[AttentionSpec | Border, ...]:
        """What stands between its pieces, in order. Read once."""

    @abstractmethod
    def piece(
        self, index: int, positions: Tensor, rotary: Tensor, arrived: Tensor | None, carry: Carry
    ) -> tuple[tuple[Tensor, ...], Carry]:
        """One piece.

        Args:
            index: which; the same at every call of one compiled piece.
            positions: int64 [N].
            rotary: table [max_position, D'] of cosines and sines, float32.
            arrived: output of the border before it; None for the first piece.
            carry: from the piece before it, which may be another layer's.

        Returns:
            Inputs of the border behind it, () for the last piece, and the carry.
        """


class PiecewiseLayer(DecoderLayer):
    """One decoder layer with attention as its one border.

    Attributes:
        attention: what its border does.
    """

    attention: AttentionSpec

    @property
    def borders(self) -> tuple[AttentionSpec | Border, ...]:
        return (self.attention,)

    def piece(
        self, index: int, positions: Tensor, rotary: Tensor, arrived: Tensor | None, carry: Carry
    ) -> tuple[tuple[Tensor, ...], Carry]:
        if index == 0:
            return self.before(positions, rotary, carry)
        assert arrived is not None, "a piece comes after its border"
        return (), self.after(arrived, carry)

    @abstractmethod
    def before(self, positions: Tensor, rotary: Tensor, carry: Carry) -> tuple[AttentionInputs, Carry]:
        """Up to attention. positions: int64 [N]; rotary: its table [max_position, D'] of cosines and sines, float32."""

    @abstractmethod
    def after(self, attended: Tensor, carry: Carry) -> Carry:
        """From attention's output [N, H, D] to the carry of the next layer."""


class PiecewiseModel(nn.Module, ABC):
    """A decoder. Registered by architecture name with `octavo_register_models`; built with empty weights, then loaded.

    Args:
        config: the model's shape.
        dtype: of weights and activations.
    """

    layers: Sequence[DecoderLayer]
    carry: tuple[CarrySpec, ...]

    def __init__(self, config: ModelConfig, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = config
        self.dtype = dtype

    @abstractmethod
    def embed(self, token_ids: Tensor) -> Carry:
        """token_ids int64 [N] -> the first carry."""

    @abstractmethod
    def rotary_table(self, max_len: int) -> Tensor:
        """Cosines and sines for positions below `max_len`, float32 [max_len, D']; made once."""

    def rotary_tables(self, max_len: int) -> tuple[Tensor, ...]:
        """The tables that layers choose from by `rotary_index`; where all turn alike, the one of `rotary_table`."""
        return (self.rotary_table(max_len),)

    @abstractmethod
    def final(self, carry: Carry) -> Tensor:
        """The last carry -> hidden states [N, E], normed."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states of the rows that sample, [R, E] -> logits [R, V] of the model's type."""

    def likeliest(self, hidden: Tensor) -> Tensor:
        """The tokens of the largest of `logits` for the same rows, int64 [R]: the lowest id of equals, -1 for rows without a finite
        maximum. Overridden where that takes less than all logits."""
        return likeliest(self.logits(hidden))

    @abstractmethod
    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Fill every parameter from (Hugging Face name, tensor) pairs; fused and tied ones are the model's business.

        Raises `CheckpointError` naming what is missing, unexpected, duplicated or of a wrong shape.
        """
