"""One pass through the model: its pieces, with borders between them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from octavo.profile.parts import Part
from octavo.profile.spans import SpanRecorder
from octavo_kernels.attention import AttentionBackend, AttentionSpec, AttentionStep
from octavo_kernels.attention.cpu import CpuAttention
from octavo_kernels.cpu.program import CpuProgram
from octavo_models.compile.compose import compose
from octavo_models.compile.dispatch import GraphKey, GraphMode
from octavo_models.compile.graphs import GraphBackend, Plan
from octavo_models.compile.piece import hold
from octavo_models.compile.pieces import Pieces
from octavo_models.model import Border, Carry, PiecewiseModel
from octavo_models.runner.buffers import BorderBuffers, BorderRows
from octavo_models.runner.inputs import StepInputs
from octavo_models.runner.programs import attend_plans, note_down
from octavo_models.sampling.likeliest import likeliest


class LastBorder(NamedTuple):
    """What the last border put out, [N, ...], and the carry beside it; the next step writes to the same places.

    `logits` [N, V] are there where a graph computed them of all rows.
    """

    positions: Tensor
    attended: Tensor | None
    carry: Carry
    logits: Tensor | None = None


class BorderStep(NamedTuple):
    """A step as borders see it: what attention planned for it, and which rows belong to whom, for each KV group."""

    plans: list[object]
    groups: tuple[AttentionStep, ...]


class Forward:
    """Runs steps on static buffers.

    Args:
        model: whose pieces run.
        backend: of attention.
        buffers: for what crosses the borders.
        rotary: the model's tables for the longest sequence.
        caches: of each border that attends, in order: its KV group and its cache.
    """

    def __init__(
        self,
        *,
        model: PiecewiseModel,
        backend: AttentionBackend,
        buffers: BorderBuffers,
        rotary: Sequence[Tensor],
        caches: Sequence[tuple[int, Tensor]],
    ) -> None:
        program = compose(model.layers)
        self._model = model
        self._backend = backend
        self._buffers = buffers
        self._rotary = list(rotary)
        self._borders = program.borders
        self._shapes = [buffers.shape(border) for border in program.borders]
        self.pieces = Pieces(model, program, rotary, buffers)
        attention = [border for border in program.borders if isinstance(border, AttentionSpec)]
        assert len(caches) == len(attention), "every border that attends has a cache"
        self._caches = list(caches)
        self._cache_of = _number(program.borders)
        self._graphs: dict[GraphKey, Plan[BorderStep]] = {}
        self._logits: Tensor | None = None
        self._captured_step: BorderStep | None = None
        self._program: CpuProgram | None = None
        self._last_program: CpuProgram | None = None

    def run(self, inputs: StepInputs) -> LastBorder:
        """Up to the last border. KV of all rows is in the cache afterwards."""
        step = self._plan(inputs)
        rows = self._buffers.first_rows(len(inputs.token_ids))
        if inputs.graph is None:
            self._run_step(inputs, rows, step)
            return self._last_border(inputs, rows)
        self._graphs[inputs.graph].replay(step)
        border = self._last_border(inputs, self._buffers.first_rows(inputs.num_tokens))
        if inputs.graph.mode is GraphMode.FULL:
            assert self._logits is not None, "FULL graphs have a place for logits"
            return border._replace(logits=self._logits[: inputs.num_tokens])
        return border

    def logits(self, border: LastBorder, rows: Tensor | None) -> Tensor:
        """Logits of some rows, int64 [C] -> [C, V], or of all. What follows the last border reads no other row.

        For all rows it may be called once a step, and last: what pieces change in place are the places of the border itself.
        """
        if border.logits is not None:
            return border.logits if rows is None else border.logits.index_select(0, rows)
        return self._model.logits(self._final_hidden(border, rows))

    def likeliest(self, border: LastBorder, rows: Tensor | None) -> Tensor:
        """The tokens of the largest logits, int64 [C], -1 for rows without a finite maximum; otherwise as `logits`."""
        if border.logits is not None:
            return likeliest(self.logits(border, rows))
        return self._model.likeliest(self._final_hidden(border, rows))

    def note_down(self, inputs: StepInputs) -> None:
        """Run a step that is padding alone, and later ones as programs of C++ calls, where all that they do on a CPU is C++."""
        all_attend = len(self._caches) == len(self._borders)
        if not isinstance(self._backend, CpuAttention) or not all_attend:
            return
        step = self._plan(inputs)
        num_tokens = len(inputs.token_ids)
        rows = self._buffers.first_rows(num_tokens)
        border = self._last_border(inputs, rows, all_rows=True)
        note = partial(note_down, num_tokens=num_tokens, max_tokens=self._buffers.max_tokens)
        with torch.inference_mode():
            hold(rows.carry, self._model.embed(inputs.token_ids))
            self._program = note(lambda next_piece: self._run_borders(inputs, rows, step, next_piece), plans=attend_plans(step.plans))
            self._last_program = note(lambda _: self.pieces.run_last(border.positions, border.attended, border.carry))

    def capture(self, graphs: GraphBackend, key: GraphKey, inputs: StepInputs) -> None:
        """Capture one graph; `inputs` are at the places that every step of the graph has.

        Raises `GraphError` where a piece, or in a FULL graph attention, cannot be replayed.
        """
        step = self._plan(inputs)
        rows = self._buffers.first_rows(key.num_rows)
        plan: Plan[BorderStep] = Plan(graphs, f"{key.mode.value} graph of {key.num_rows} rows")
        with torch.inference_mode():
            if key.mode is GraphMode.FULL:
                self._capture_all(plan, inputs, rows, step)
            else:
                self._capture_pieces(plan, inputs, rows, step)
        self._graphs[key] = plan

    def _plan(self, inputs: StepInputs) -> BorderStep:
        return BorderStep([self._backend.plan(group) for group in inputs.attention], inputs.attention)

    def _final_hidden(self, border: LastBorder, rows: Tensor | None) -> Tensor:
        """Hidden states [C, E] of some rows, or of all."""
        positions, attended, carry, _ = border
        if rows is None and self._last_program is not None and not self.pieces.are_compiled:
            hidden = self._last_program.run(len(positions))
            assert hidden is not None, "the last piece gives hidden states"
            return hidden
        if rows is not None:
            positions = positions.index_select(0, rows)
            attended = None if attended is None else attended.index_select(0, rows)
            carry = tuple(tensor.index_select(0, rows) for tensor in carry)
        return self.pieces.run_last(positions, attended, carry)

    @contextmanager
    def profiled(self, spans: SpanRecorder) -> Iterator[None]:
        """Clock the parts of a forward inside; compiled pieces and graphs as wholes."""
        with ExitStack() as stack:
            stack.enter_context(spans.clock(self, "run", Part.FORWARD))
            stack.enter_context(spans.clock(self._backend, "plan", Part.PREPARE))
            stack.enter_context(spans.clock(self._backend, "run", Part.ATTENTION))
            stack.enter_context(spans.clock(self._model, "logits", Part.HEAD))
            stack.enter_context(spans.clock(self._model, "likeliest", Part.HEAD))
            if self.pieces.are_compiled:
                stack.enter_context(spans.clock(self.pieces, "run", Part.COMPILED, is_library=True))
                stack.enter_context(spans.clock(self.pieces, "run_last", Part.COMPILED, is_library=True))
            for plan in self._graphs.values():
                stack.enter_context(spans.clock(plan, "replay", Part.GRAPHS, is_library=True))
            yield

    def forget_graphs(self) -> None:
        """Let go of everything that was captured."""
        self._graphs.clear()
        self._logits = None

    def _run_step(self, inputs: StepInputs, rows: BorderRows, step: BorderStep) -> None:
        """As `_run_pieces`, and where that is possible as a program of C++ calls."""
        if self._program is None or self.pieces.are_compiled:
            self._run_pieces(inputs, rows, step)
            return
        hold(rows.carry, self._model.embed(inputs.token_ids))
        self._program.run(len(inputs.token_ids), attend_plans(step.plans))

    def _run_pieces(self, inputs: StepInputs, rows: BorderRows, step: BorderStep) -> None:
        hold(rows.carry, self._model.embed(inputs.token_ids))
        self._run_borders(inputs, rows, step)

    def _run_borders(self, inputs: StepInputs, rows: BorderRows, step: BorderStep, next_piece: Callable[[], None] = lambda: None) -> None:
        """Every piece but the last, each with the border behind it; `next_piece` is called before each."""
        for index in range(len(self._borders)):
            next_piece()
            self.pieces.run(index, inputs.positions, rows)
            self._cross(index, rows, step)

    def _capture_pieces(self, plan: Plan[BorderStep], inputs: StepInputs, rows: BorderRows, step: BorderStep) -> None:
        """A graph a piece, and a call a border; what follows the last border is left to `logits`, which reads few rows."""
        touched = self._touched(inputs, rows)

        def first() -> None:
            hold(rows.carry, self._model.embed(inputs.token_ids))
            if self._borders:
                self.pieces.run(0, inputs.positions, rows)

        plan.piece(first, touched)
        for index in range(len(self._borders)):
            if index:
                plan.piece(lambda index=index: self.pieces.run(index, inputs.positions, rows), touched)  # type: ignore[misc]
            plan.eager(lambda step, index=index: self._cross(index, rows, step), step)  # type: ignore[misc]

    def _capture_all(self, plan: Plan[BorderStep], inputs: StepInputs, rows: BorderRows, step: BorderStep) -> None:
        """One graph of everything up to the logits of every row."""

        def forward() -> Tensor:
            assert self._captured_step is not None, "the step is noted before it is replayed"
            self._run_pieces(inputs, rows, self._captured_step)
            return self.logits(self._last_border(inputs, rows, all_rows=True), None)

        plan.eager(self._note_step, step)
        if self._logits is None:
            self._logits = torch.empty_like(forward())
        place = self._logits[: len(inputs.token_ids)]
        plan.piece(lambda: place.copy_(forward()), [*self._touched(inputs, rows), *_attention_tensors(inputs), place])

    def _note_step(self, step: BorderStep) -> None:
        self._captured_step = step

    def _cross(self, index: int, rows: BorderRows, step: BorderStep) -> None:
        """One border: from its inputs to its output."""
        border = self._borders[index]
        inputs, output = rows.places[self._shapes[index]]
        if isinstance(border, AttentionSpec):
            group, cache = self._caches[self._cache_of[index]]
            query, key, value = inputs
            self._backend.run(border, step.plans[group], query, key, value, cache, output)
        else:
            border.run(step.groups[0], inputs, output)

    def _last_border(self, inputs: StepInputs, rows: BorderRows, *, all_rows: bool = False) -> LastBorder:
        attended = rows.places[self._shapes[-1]].output if self._shapes else None
        return LastBorder(inputs.positions if all_rows else inputs.positions[: inputs.num_tokens], attended, rows.carry)

    def _touched(self, inputs: StepInputs, rows: BorderRows) -> list[Tensor]:
        """Every tensor that pieces and borders read or write."""
        places = chain.from_iterable((*inputs_of, output) for inputs_of, output in rows.places.values())
        weights = (*self._model.parameters(), *self._model.buffers())
        caches = (cache for _, cache in self._caches)
        return [inputs.token_ids, inputs.positions, *rows.carry, *places, *self._rotary, *weights, *caches]


def _attention_tensors(inputs: StepInputs) -> list[Tensor]:
    return [tensor for step in inputs.attention for tensor in (step.query_start, step.seq_lens, step.block_table, step.slot_mapping)]


def _number(borders: Sequence[AttentionSpec | Border]) -> list[int]:
    """How many borders before each one attend."""
    counts, count = [], 0
    for border in borders:
        counts.append(count)
        count += isinstance(border, AttentionSpec)
    return counts
