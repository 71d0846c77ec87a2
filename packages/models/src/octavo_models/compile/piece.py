"""Pieces as functions: what they take are tensors, and what they give is written to places that outlive them."""

from collections.abc import Callable
from types import FunctionType
from typing import cast

import torch
from torch import Tensor

from octavo_models.model import Carry, DecoderLayer, PiecewiseModel

PieceFunction = Callable[
    [tuple[DecoderLayer, ...], tuple[Tensor, ...], Tensor, Tensor | None, Carry, tuple[Tensor, ...]],
    Carry,
]
"""(layers of its segments, rotary table of each, positions, output of the border before it, carry, places for the inputs of the border
behind it) -> the carry, at the place where it was."""

LastPieceFunction = Callable[[tuple[DecoderLayer, ...], tuple[Tensor, ...], Tensor, Tensor | None, Carry, PiecewiseModel], Tensor]
"""(as above, ..., model) -> hidden states [N, E]."""


def make_piece(name: str, indices: tuple[int, ...], dtype: torch.dtype) -> PieceFunction:
    """A function of its own for each signature: compilers remember what they made by the code that they made it of.

    Args:
        name: shown in traces.
        indices: which piece of its layer each segment is.
        dtype: of the model's activations; what a border puts out is converted to it.
    """

    def piece(
        layers: tuple[DecoderLayer, ...],
        tables: tuple[Tensor, ...],
        positions: Tensor,
        arrived: Tensor | None,
        carry: Carry,
        places: tuple[Tensor, ...],
    ) -> Carry:
        sent, passed = _run_segments(layers, indices, tables, positions, None if arrived is None else arrived.to(dtype), carry)
        hold(places, sent)  # first, since they may be views of the carry as it was
        hold(carry, passed)
        return carry

    return cast("PieceFunction", _with_own_code(piece, name))


def make_last_piece(name: str, indices: tuple[int, ...], dtype: torch.dtype) -> LastPieceFunction:
    """As `make_piece`, up to the model's final hidden states."""

    def piece(
        layers: tuple[DecoderLayer, ...],
        tables: tuple[Tensor, ...],
        positions: Tensor,
        arrived: Tensor | None,
        carry: Carry,
        model: PiecewiseModel,
    ) -> Tensor:
        _, passed = _run_segments(layers, indices, tables, positions, None if arrived is None else arrived.to(dtype), carry)
        return model.final(passed)

    return cast("LastPieceFunction", _with_own_code(piece, name))


def hold(places: tuple[Tensor, ...], tensors: tuple[Tensor, ...]) -> None:
    """Copy tensors to their places; one that is at its place stays."""
    for place, tensor in zip(places, tensors, strict=True):
        if tensor is not place:
            place.copy_(tensor)


def _run_segments(
    layers: tuple[DecoderLayer, ...],
    indices: tuple[int, ...],
    tables: tuple[Tensor, ...],
    positions: Tensor,
    arrived: Tensor | None,
    carry: Carry,
) -> tuple[tuple[Tensor, ...], Carry]:
    sent: tuple[Tensor, ...] = ()
    for layer, index, table in zip(layers, indices, tables, strict=True):
        sent, carry = layer.piece(index, positions, table, arrived, carry)
        arrived = None
    return sent, carry


def _with_own_code(function: Callable[..., object], name: str) -> FunctionType:
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_name=name, co_qualname=name)
    return FunctionType(code, function.__globals__, name, None, function.__closure__)
