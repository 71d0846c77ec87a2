"""Joins what layers state piece by piece: everything between two borders becomes one piece of the program.

Of a usual decoder this makes the first piece (up to the attention of the first layer), one piece for each pair of neighbouring
layers, and the last (from the attention of the last layer to the final norm).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from octavo_kernels.attention import AttentionSpec
from octavo_models.model import Border, DecoderLayer


class Segment(NamedTuple):
    """One piece as a layer states it."""

    layer: DecoderLayer
    number: int


@dataclass(frozen=True)
class Piece:
    """Segments without a border between them. The last piece of a program ends in the model's `final`."""

    segments: tuple[Segment, ...]
    is_last: bool


@dataclass(frozen=True)
class Program:
    """Pieces with borders between them: `pieces[i]`, then `borders[i]`; there is one border less."""

    pieces: tuple[Piece, ...]
    borders: tuple[AttentionSpec | Border, ...]


def compose(layers: Sequence[DecoderLayer]) -> Program:
    """The program of a decoder's layers, behind its embedding."""
    joined: list[list[Segment]] = [[]]
    borders: list[AttentionSpec | Border] = []
    for layer in layers:
        joined[-1].append(Segment(layer, 0))
        for index, border in enumerate(layer.borders, start=1):
            borders.append(border)
            joined.append([Segment(layer, index)])
    last = len(joined) - 1
    return Program(tuple(Piece(tuple(segments), index == last) for index, segments in enumerate(joined)), tuple(borders))


def attention_specs(layers: Sequence[DecoderLayer]) -> list[AttentionSpec]:
    """Of every border that attends, in order; each has a KV cache of its own."""
    return [border for layer in layers for border in layer.borders if isinstance(border, AttentionSpec)]
