"""Batch state and inputs against a model of dictionaries and loops."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest, ContinuedRequest, StepPlan
from octavo_models.runner.batch import BatchState
from octavo_models.runner.buffers import InputBuffers
from octavo_models.runner.inputs import StepInputs, prepare
from octavo_models.sampling.batch import SamplingState

MAX_REQUESTS = 4
MAX_LENGTH = 48
BLOCK_SIZES = (4, 8)
CPU = torch.device("cpu")


def make_state() -> BatchState:
    sampling = SamplingState(MAX_REQUESTS, 100, CPU)
    return BatchState(max_num_seqs=MAX_REQUESTS, num_groups=len(BLOCK_SIZES), sampling=sampling)


def make_buffers() -> InputBuffers:
    blocks = [-(-MAX_LENGTH // size) for size in BLOCK_SIZES]
    return InputBuffers(max_tokens=MAX_REQUESTS * MAX_LENGTH, max_requests=MAX_REQUESTS, max_blocks=blocks, device=CPU)


@dataclass
class Known:
    tokens: list[int]
    num_prompt_tokens: int
    num_computed: int
    blocks: list[list[int]] = field(default_factory=lambda: [[] for _ in BLOCK_SIZES])
    is_held: bool = False


class Model:
    """What should be in the state, by request, and plans of it drawn at random."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.requests: dict[str, Known] = {}
        self.num_steps = 0
        self.next_block = 1

    def plan(self) -> StepPlan:
        removed = [name for name in self.requests if self.data.draw(st.integers(0, 4)) == 0]
        for name in removed:
            del self.requests[name]
        if len(self.requests) < MAX_REQUESTS:
            prompt = self.data.draw(st.lists(st.integers(0, 99), min_size=1, max_size=20))
            output = self.data.draw(st.lists(st.integers(0, 99), max_size=3))
            cached = self.data.draw(st.integers(0, len(prompt + output) - 1))
            self.requests[f"r{self.num_steps}"] = Known([*prompt, *output], len(prompt), cached)
        running = [name for name in self.data.draw(st.permutations(list(self.requests))) if self._may_run(name)]
        added, continued, num_tokens, outputs = [], [], {}, {}
        for name in running:
            known = self.requests[name]
            num_tokens[name] = count = self.data.draw(st.integers(1, len(known.tokens) - known.num_computed))
            gained = self._extend_blocks(known, known.num_computed + count)
            if known.is_held:
                continued.append(ContinuedRequest(request_id=name, epoch=0, num_computed_tokens=known.num_computed, new_block_ids=gained))
            else:
                added.append(self._addition(name, known))
                known.is_held = True
            if known.num_computed + count == len(known.tokens):
                outputs[name] = len(known.tokens) - known.num_prompt_tokens
        self.num_steps += 1
        return StepPlan(step_id=0, removed=removed, added=added, continued=continued, num_tokens=num_tokens, num_output_tokens=outputs)

    def _may_run(self, name: str) -> bool:
        known = self.requests[name]
        return not known.is_held or (len(known.tokens) < MAX_LENGTH and self.data.draw(st.integers(0, 3)) > 0)

    def _extend_blocks(self, known: Known, num_tokens: int) -> list[list[int]]:
        gained = []
        for table, size in zip(known.blocks, BLOCK_SIZES, strict=True):
            new = list(range(self.next_block, self.next_block + -(-num_tokens // size) - len(table)))
            self.next_block += len(new)
            table.extend(new)
            gained.append(new)
        return gained

    def _addition(self, name: str, known: Known) -> AddedRequest:
        return AddedRequest(
            request_id=name,
            epoch=0,
            token_ids=list(known.tokens),
            num_prompt_tokens=known.num_prompt_tokens,
            num_computed_tokens=known.num_computed,
            block_ids=[list(table) for table in known.blocks],
            params=SamplingParams(),
            ending_token_ids=[],
            seed=0,
        )

    def check(self, plan: StepPlan, inputs: StepInputs) -> None:
        """Token by token, what the inputs have to be."""
        ids, positions, starts, ends = [], [], [0], []
        for name, count in plan.num_tokens.items():
            known = self.requests[name]
            span = range(known.num_computed, known.num_computed + count)
            ids += [known.tokens[position] for position in span]
            positions += span
            starts.append(starts[-1] + count)
            ends.append(span.stop)
        assert inputs.token_ids.tolist() == ids
        assert inputs.positions.tolist() == positions
        for group, (step, size) in enumerate(zip(inputs.attention, BLOCK_SIZES, strict=True)):
            tables = [self.requests[name].blocks[group] for name in plan.num_tokens]
            width = max(-(-end // size) for end in ends)
            slots = []
            for name, count in plan.num_tokens.items():
                known = self.requests[name]
                for position in range(known.num_computed, known.num_computed + count):
                    slots.append(known.blocks[group][position // size] * size + position % size)  # noqa: PERF401
            assert step.query_start.tolist() == starts
            assert step.seq_lens.tolist() == ends
            assert step.slot_mapping.tolist() == slots
            assert step.block_table.tolist() == [table + [0] * (width - len(table)) for table in tables]
            assert (step.max_query_len, step.max_seq_len) == (max(plan.num_tokens.values()), max(ends))
        rows = [end - 1 for name, end in zip(plan.num_tokens, starts[1:], strict=True) if name in plan.num_output_tokens]
        assert inputs.sampling.request_ids == [name for name in plan.num_tokens if name in plan.num_output_tokens]
        assert inputs.sampling.num_output_tokens.tolist() == [plan.num_output_tokens[name] for name in inputs.sampling.request_ids]
        if inputs.sampling.token_rows is None:
            assert rows == list(range(len(ids)))
        else:
            assert inputs.sampling.token_rows.tolist() == rows


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_inputs_are_what_loops_over_tokens_give(data: st.DataObject) -> None:
    model, state, buffers = Model(data), make_state(), make_buffers()
    for step in range(data.draw(st.integers(1, 12))):
        plan = model.plan()
        state.apply(plan)
        assert len(state) == sum(known.is_held for known in model.requests.values())
        if not plan.num_tokens:
            continue
        inputs = prepare(plan, state, buffers, BLOCK_SIZES)
        model.check(plan, inputs)
        tokens = [(7 * step + row) % 100 for row in range(len(inputs.sampling.request_ids))]
        state.append(inputs.sampling.slots, np.array(tokens, dtype=np.int64))
        for name, count in plan.num_tokens.items():
            model.requests[name].num_computed += count
        for name, token in zip(inputs.sampling.request_ids, tokens, strict=True):
            model.requests[name].tokens.append(token)


def test_tensors_of_types_that_backends_expect(make_plan_of_one: StepPlan) -> None:
    state, buffers = make_state(), make_buffers()
    state.apply(make_plan_of_one)
    step = prepare(make_plan_of_one, state, buffers, BLOCK_SIZES).attention[0]
    assert (step.query_start.dtype, step.seq_lens.dtype, step.block_table.dtype) == (torch.int32,) * 3
    assert step.slot_mapping.dtype == torch.int64
    assert step.block_table.is_contiguous()


@pytest.fixture
def make_plan_of_one() -> StepPlan:
    added = AddedRequest(
        request_id="a",
        epoch=0,
        token_ids=[1, 2, 3],
        num_prompt_tokens=3,
        num_computed_tokens=0,
        block_ids=[[1], [2]],
        params=SamplingParams(),
        ending_token_ids=[],
        seed=0,
    )
    return StepPlan(step_id=0, removed=[], added=[added], continued=[], num_tokens={"a": 3}, num_output_tokens={"a": 0})


def test_more_requests_than_slots_are_a_bug(make_plan_of_one: StepPlan) -> None:
    state = BatchState(max_num_seqs=0, num_groups=2, sampling=SamplingState(0, 100, CPU))
    with pytest.raises(AssertionError, match="more than 0 requests"):
        state.apply(make_plan_of_one)


def test_adding_a_request_twice_is_a_bug(make_plan_of_one: StepPlan) -> None:
    state = make_state()
    state.apply(make_plan_of_one)
    with pytest.raises(AssertionError, match="twice"):
        state.apply(make_plan_of_one)
