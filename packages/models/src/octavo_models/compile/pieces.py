"""The pieces of a model, bound to its weights, as written or compiled."""

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from octavo_models.compile.compose import Piece, Program
from octavo_models.compile.piece import LastPieceFunction, PieceFunction, make_last_piece, make_piece
from octavo_models.compile.signature import Describer, tensor_signature
from octavo_models.model import Carry, DecoderLayer, PiecewiseModel
from octavo_models.runner.buffers import BorderBuffers, BorderRows

EXAMPLE_ROWS = 4
"""Rows of the step that pieces are compiled for. Any number of rows runs afterwards; one row alone would be taken for a constant."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Bound:
    """One piece of the program with what it takes of the model.

    Attributes:
        layers, tables: of its segments.
        signature: which function serves it.
    """

    layers: tuple[DecoderLayer, ...]
    tables: tuple[Tensor, ...]
    signature: Hashable


class Pieces:
    """Runs pieces by their number in the program.

    Args:
        model: of the program; loaded.
        program: of its layers.
        rotary: the model's tables.
        buffers: whose places the pieces will write to.
    """

    def __init__(self, model: PiecewiseModel, program: Program, rotary: Sequence[Tensor], buffers: BorderBuffers) -> None:
        self._model = model
        self._program = program
        self._shapes = [buffers.shape(border) for border in program.borders]
        example = buffers.first_rows(EXAMPLE_ROWS)
        self._bound = [self._bind(index, piece, rotary, example) for index, piece in enumerate(program.pieces)]
        self._functions: dict[Hashable, Callable[..., Any]] = {}
        self.are_compiled = False
        self.names: dict[Hashable, str] = {}
        """Signatures and how they are called, in the order of the program."""
        for piece, bound in zip(program.pieces, self._bound, strict=True):
            if bound.signature not in self._functions:
                self._add_function(piece, bound.signature)
        self._written = self._functions

    def run(self, index: int, positions: Tensor, rows: BorderRows) -> None:
        """One piece but the last: from the places of the border before it to those of the border behind it."""
        bound = self._bound[index]
        function: PieceFunction = self._functions[bound.signature]
        arrived = rows.places[self._shapes[index - 1]].output if index else None
        function(bound.layers, bound.tables, positions, arrived, rows.carry, rows.places[self._shapes[index]].inputs)

    def run_last(self, positions: Tensor, arrived: Tensor | None, carry: Carry) -> Tensor:
        """The last piece, for all rows or some: the final hidden states [N, E]."""
        bound = self._bound[-1]
        function: LastPieceFunction = self._functions[bound.signature]
        return function(bound.layers, bound.tables, positions, arrived, carry, self._model)

    def replace(self, functions: dict[Hashable, Callable[..., Any]]) -> None:
        """Run these functions from now on; one for each signature."""
        assert functions.keys() == self._functions.keys(), "every piece has its function"
        self._functions = functions
        self.are_compiled = True

    @contextmanager
    def as_written(self) -> Iterator[None]:
        """Inside, run what was written, though it was replaced."""
        replaced = self._functions, self.are_compiled
        self._functions, self.are_compiled = self._written, False
        try:
            yield
        finally:
            self._functions, self.are_compiled = replaced

    def compiled(self, make_buffers: Callable[[int], BorderBuffers], options: dict[str, Any]) -> dict[Hashable, Callable[..., Any]]:
        """Compile one function for each signature, and run each once so that it is there; for `replace`. Changes nothing.

        Args:
            make_buffers: of a number of rows, to run the functions on.
            options: of inductor.
        """
        places = make_buffers(EXAMPLE_ROWS)
        functions: dict[Hashable, Callable[..., Any]] = {}
        for index, bound in enumerate(self._bound):
            if bound.signature in functions:
                continue
            start = time.perf_counter()
            function = compile_function(self._functions[bound.signature], options)
            self._run_example(index, function, places)
            functions[bound.signature] = function
            name, number, count = self.names[bound.signature], len(functions), len(self.names)
            _log.info("compiled piece %r (%d of %d) in %.1f s", name, number, count, time.perf_counter() - start)
        return functions

    def _run_example(self, index: int, function: Callable[..., Any], buffers: BorderBuffers) -> None:
        bound, rows = self._bound[index], buffers.first_rows(EXAMPLE_ROWS)
        positions = torch.zeros(EXAMPLE_ROWS, dtype=torch.int64, device=rows.carry[0].device)
        arrived = rows.places[self._shapes[index - 1]].output if index else None
        is_last = self._program.pieces[index].is_last
        target: Any = self._model if is_last else rows.places[self._shapes[index]].inputs
        sent = () if is_last else tuple(target)
        for tensor in (*rows.carry, *sent, *bound.tables, positions, *(() if arrived is None else (arrived,))):
            torch._dynamo.mark_dynamic(tensor, 0)
        with torch.inference_mode():
            function(bound.layers, bound.tables, positions, arrived, rows.carry, target)

    def _bind(self, index: int, piece: Piece, rotary: Sequence[Tensor], example: BorderRows) -> _Bound:
        layers = tuple(segment.layer for segment in piece.segments)
        tables = tuple(rotary[layer.rotary_index] for layer in layers)
        arrived = [example.places[self._shapes[index - 1]].output] if index else []
        sent = [] if piece.is_last else example.places[self._shapes[index]].inputs
        describer = Describer(leave_out=(self._model.layers,))
        signature = (
            tuple(segment.number for segment in piece.segments),
            describer.describe(layers),
            describer.describe(self._model) if piece.is_last else None,
            tuple(tensor_signature(tensor, free_rows=True) for tensor in (*arrived, *example.carry, *sent, *tables)),
            tuple(layer.rotary_index == layers[0].rotary_index for layer in layers),
            str(self._model.dtype),
        )
        return _Bound(layers, tables, signature)

    def _add_function(self, piece: Piece, signature: Hashable) -> None:
        name = self._name(piece)
        indices = tuple(segment.number for segment in piece.segments)
        make = make_last_piece if piece.is_last else make_piece
        self._functions[signature] = make(name, indices, self._model.dtype)
        self.names[signature] = name

    def _name(self, piece: Piece) -> str:
        kind = "last" if piece.is_last else "first" if piece is self._program.pieces[0] else "mid"
        number = sum(name.startswith(kind) for name in self.names.values())
        return f"{kind}_{number}" if number else kind


def compile_function(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """Compiled when it is first called, for the shapes of that call; afterwards what it is given is not looked at."""
    # The dictionary is one that nobody else holds: torch takes the filter out of it.
    settings = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe, **options}
    return torch.compile(function, fullgraph=True, options=settings)
