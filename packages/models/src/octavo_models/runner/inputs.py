"""From a plan and the batch state to the tensors of a step, without a loop over tokens.

Shape legend: N tokens, R requests, C rows that sample.
"""

from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from octavo.scheduler.plan import StepPlan
from octavo_kernels.attention import AttentionStep
from octavo_models.compile.dispatch import BatchFacts, Dispatcher, GraphKey, GraphMode
from octavo_models.runner.batch import BatchState
from octavo_models.runner.buffers import HostArray, InputBuffers
from octavo_models.runner.prompt_rows import PromptRows, prompt_rows
from octavo_models.runner.table import RowTable

NO_SLOT = -1
"""Slot of a row whose KV is not kept."""


@dataclass(frozen=True, kw_only=True)
class SamplingRows:
    """The requests that sample in a step, in batch order.

    Attributes:
        request_ids, slots: who, [C].
        num_output_tokens: int64 [C], output tokens each has before the step.
        token_rows: int64 [C], the row of each one's last token among the N; None where row i is request i throughout.
    """

    request_ids: list[str]
    slots: NDArray[np.int64]
    num_output_tokens: NDArray[np.int64]
    token_rows: Tensor | None


@dataclass(frozen=True, kw_only=True)
class StepInputs:
    """What the forward takes.

    With a graph, N is that graph's number of rows: those of padding have token 0 at position 0, write no KV and belong to nobody.

    Attributes:
        token_ids, positions: int64 [N].
        attention: one step a KV group.
        num_tokens: rows without padding.
        sampling: who samples.
        prompt: which tokens of prompts have their log-probabilities taken.
        graph: that the step is padded for.
    """

    token_ids: Tensor
    positions: Tensor
    attention: tuple[AttentionStep, ...]
    num_tokens: int
    sampling: SamplingRows
    prompt: PromptRows | None = None
    graph: GraphKey | None = None


def prepare(
    plan: StepPlan, state: BatchState, buffers: InputBuffers, block_sizes: tuple[int, ...], dispatcher: Dispatcher | None = None
) -> StepInputs:
    """Fill the buffers for a step of at least one token, padded for the graph that serves it; the state follows the plan already."""
    slots = state.slots_of(list(plan.num_tokens))
    counts = np.fromiter(plan.num_tokens.values(), dtype=np.int64, count=len(slots))
    computed = state.num_computed_tokens[slots]
    seq_lens: NDArray[np.int64] = computed + counts
    ends: NDArray[np.int64] = np.cumsum(counts)
    first_rows: NDArray[np.int64] = ends - counts
    positions: NDArray[np.int64] = np.arange(ends[-1]) + np.repeat(computed - first_rows, counts)
    token_slots = slots.repeat(counts)
    assert (seq_lens <= state.tokens.lengths[slots]).all(), "a plan runs tokens that are not there yet"
    sampling = _sampling_rows(plan, state, buffers, slots, ends)
    prompt = prompt_rows(plan, state, slots, first_rows, buffers.device) if state.sampling.logprobs else None
    rows = _Rows(
        token_ids=state.tokens.values[token_slots, positions],
        positions=positions,
        ends=ends,
        seq_lens=seq_lens,
        slot_mappings=[
            _slot_mapping(table, token_slots, positions, block_size)
            for table, block_size in zip(state.block_tables, block_sizes, strict=True)
        ],
        block_tables=[
            table.values[slots, : -(-int(seq_lens.max()) // block_size)]
            for table, block_size in zip(state.block_tables, block_sizes, strict=True)
        ],
    )
    graph = None
    if dispatcher is not None:
        facts = BatchFacts(
            num_tokens=len(positions),
            num_requests=len(slots),
            every_row_samples=sampling.token_rows is None,
            wants_prompt=prompt is not None,
        )
        graph = dispatcher.key(facts)
    token_ids, placed_positions, attention = _place(rows, buffers, graph, max_query_len=int(counts.max()))
    return StepInputs(
        token_ids=token_ids,
        positions=placed_positions,
        attention=attention,
        num_tokens=len(positions),
        sampling=sampling,
        prompt=prompt,
        graph=graph,
    )


def empty_inputs(buffers: InputBuffers, graph: GraphKey) -> StepInputs:
    """What a graph is captured with: padding alone, at the places that every step of the graph has."""
    nothing = np.zeros(0, dtype=np.int64)
    num_groups = len(buffers.block_tables)
    rows = _Rows(
        token_ids=nothing.astype(np.int32),
        positions=nothing,
        ends=nothing,
        seq_lens=nothing,
        slot_mappings=[nothing] * num_groups,
        block_tables=[np.zeros((0, 1), dtype=np.int32)] * num_groups,
    )
    token_ids, positions, attention = _place(rows, buffers, graph, max_query_len=1)
    nobody = SamplingRows(request_ids=[], slots=nothing, num_output_tokens=nothing, token_rows=None)
    return StepInputs(token_ids=token_ids, positions=positions, attention=attention, num_tokens=0, sampling=nobody, graph=graph)


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """A step on the host, without padding: token_ids int32 [N], positions int64 [N], ends and seq_lens int64 [R], for each KV group
    slot_mappings int64 [N] and block_tables int32 [R, T]."""

    token_ids: NDArray[np.int32]
    positions: NDArray[np.int64]
    ends: NDArray[np.int64]
    seq_lens: NDArray[np.int64]
    slot_mappings: list[NDArray[np.int64]]
    block_tables: list[NDArray[np.int32]]


def _place(
    rows: _Rows, buffers: InputBuffers, graph: GraphKey | None, *, max_query_len: int
) -> tuple[Tensor, Tensor, tuple[AttentionStep, ...]]:
    """Bring a step to its places, padded: token ids, positions and attention."""
    num_rows = len(rows.positions) if graph is None else graph.num_rows
    is_full = graph is not None and graph.mode is GraphMode.FULL
    num_requests = num_rows if is_full else len(rows.seq_lens)
    starts = np.arange(num_requests + 1) if is_full else np.concatenate(([0], rows.ends))
    query_start = _fill(buffers.query_start, starts, num_requests + 1)
    seq_lens = _fill(buffers.seq_lens, rows.seq_lens, num_requests)
    longest = buffers.max_seq_len if is_full else int(rows.seq_lens.max(initial=1))
    attention = tuple(
        AttentionStep(
            query_start=query_start,
            seq_lens=seq_lens,
            block_table=target.fill_at_place(block_table, num_requests) if is_full else target.fill(block_table),
            slot_mapping=_fill(slots, slot_mapping, num_rows, padding=NO_SLOT),
            max_query_len=max_query_len,
            max_seq_len=longest,
        )
        for target, block_table, slots, slot_mapping in zip(
            buffers.block_tables, rows.block_tables, buffers.slot_mappings, rows.slot_mappings, strict=True
        )
    )
    return _fill(buffers.token_ids, rows.token_ids, num_rows), _fill(buffers.positions, rows.positions, num_rows), attention


def _sampling_rows(
    plan: StepPlan, state: BatchState, buffers: InputBuffers, slots: NDArray[np.int64], ends: NDArray[np.int64]
) -> SamplingRows:
    sampling = plan.num_output_tokens
    request_ids, rows, chosen = list(plan.num_tokens), ends - 1, slots
    if len(sampling) < len(request_ids):
        samples = np.fromiter(map(sampling.__contains__, request_ids), dtype=np.bool_, count=len(slots))
        request_ids, rows, chosen = list(compress(request_ids, samples)), rows[samples], slots[samples]
    num_output_tokens = state.tokens.lengths[chosen] - state.num_prompt_tokens[chosen]
    expected = list(map(sampling.__getitem__, request_ids))
    assert num_output_tokens.tolist() == expected, "plan and runner disagree on output tokens"
    every_row = len(rows) == int(ends[-1])
    token_rows = None if every_row else _fill(buffers.sample_rows, rows)
    return SamplingRows(request_ids=request_ids, slots=chosen, num_output_tokens=num_output_tokens, token_rows=token_rows)


def _slot_mapping(table: RowTable, slots: NDArray[np.int64], positions: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
    """Where in the pool each token's KV goes: block * block_size + offset, int64 [N]."""
    blocks, offsets = np.divmod(positions, block_size)
    return table.values[slots, blocks].astype(np.int64) * block_size + offsets


def _fill(target: HostArray, values: NDArray[Any], size: int | None = None, *, padding: int = 0) -> Tensor:
    """Bring values to their place, with padding behind them up to `size` elements."""
    size = len(values) if size is None else size
    target.array[: len(values)] = values
    target.array[len(values) : size] = padding
    return target.upload(size)
