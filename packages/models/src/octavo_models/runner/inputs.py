"""From a plan and the batch state to the tensors of a step, without a loop over tokens.

Shape legend: N tokens, R requests, C rows that sample.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from octavo.scheduler.plan import StepPlan
from octavo_kernels.attention import AttentionStep
from octavo_models.runner.batch import BatchState
from octavo_models.runner.buffers import HostArray, InputBuffers
from octavo_models.runner.prompt_rows import PromptRows, prompt_rows
from octavo_models.runner.table import RowTable


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
    """What the forward takes: token ids and positions int64 [N], one attention step a KV group, who samples, and which tokens of prompts
    have their log-probabilities taken."""

    token_ids: Tensor
    positions: Tensor
    attention: tuple[AttentionStep, ...]
    sampling: SamplingRows
    prompt: PromptRows | None = None


def prepare(plan: StepPlan, state: BatchState, buffers: InputBuffers, block_sizes: tuple[int, ...]) -> StepInputs:
    """Fill the buffers for a step of at least one token; the state follows the plan already."""
    slots = state.slots_of(list(plan.num_tokens))
    counts = np.fromiter(plan.num_tokens.values(), dtype=np.int64, count=len(slots))
    computed = state.num_computed_tokens[slots]
    seq_lens = computed + counts
    ends: NDArray[np.int64] = np.cumsum(counts)
    first_rows: NDArray[np.int64] = ends - counts
    positions: NDArray[np.int64] = np.arange(ends[-1]) + np.repeat(computed - first_rows, counts)
    token_slots = slots.repeat(counts)
    assert (seq_lens <= state.tokens.lengths[slots]).all(), "a plan runs tokens that are not there yet"
    sampling = _sampling_rows(plan, state, buffers, slots, ends)
    query_start = buffers.query_start.array
    query_start[0] = 0
    query_start[1 : len(slots) + 1] = ends
    start, lengths = buffers.query_start.upload(len(slots) + 1), _fill(buffers.seq_lens, seq_lens)
    longest = int(seq_lens.max())
    groups = zip(state.block_tables, block_sizes, buffers.slot_mappings, buffers.block_tables, strict=True)
    attention = tuple(
        AttentionStep(
            query_start=start,
            seq_lens=lengths,
            block_table=_fill_block_table(block_table, table, slots, -(-longest // block_size)),
            slot_mapping=_fill(slot_mapping, _slot_mapping(table, token_slots, positions, block_size)),
            max_query_len=int(counts.max()),
            max_seq_len=longest,
        )
        for table, block_size, slot_mapping, block_table in groups
    )
    return StepInputs(
        token_ids=_fill(buffers.token_ids, state.tokens.values[token_slots, positions]),
        positions=_fill(buffers.positions, positions),
        attention=attention,
        sampling=sampling,
        prompt=prompt_rows(plan, state, slots, first_rows, buffers.device) if state.sampling.logprobs else None,
    )


def _sampling_rows(
    plan: StepPlan, state: BatchState, buffers: InputBuffers, slots: NDArray[np.int64], ends: NDArray[np.int64]
) -> SamplingRows:
    sampling = plan.num_output_tokens
    request_ids = [request_id for request_id in plan.num_tokens if request_id in sampling]
    samples = np.fromiter((request_id in sampling for request_id in plan.num_tokens), dtype=np.bool_, count=len(slots))
    rows = ends[samples] - 1
    chosen = slots[samples]
    num_output_tokens = state.tokens.lengths[chosen] - state.num_prompt_tokens[chosen]
    assert num_output_tokens.tolist() == [sampling[request_id] for request_id in request_ids], "plan and runner disagree on output tokens"
    every_row = len(rows) == int(ends[-1])
    token_rows = None if every_row else _fill(buffers.sample_rows, rows)
    return SamplingRows(request_ids=request_ids, slots=chosen, num_output_tokens=num_output_tokens, token_rows=token_rows)


def _slot_mapping(table: RowTable, slots: NDArray[np.int64], positions: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
    """Where in the pool each token's KV goes: block * block_size + offset, int64 [N]."""
    blocks, offsets = np.divmod(positions, block_size)
    return table.values[slots, blocks].astype(np.int64) * block_size + offsets


def _fill_block_table(target: HostArray, table: RowTable, slots: NDArray[np.int64], width: int) -> Tensor:
    """The block ids of these rows, int32 [R, width], behind them the null block."""
    rows = table.values[slots, :width]
    return _fill(target, rows.reshape(-1)).view(len(slots), width)


def _fill(target: HostArray, values: NDArray[Any]) -> Tensor:
    target.array[: len(values)] = values
    return target.upload(len(values))
