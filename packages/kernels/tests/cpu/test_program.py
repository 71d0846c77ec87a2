"""What is noted down once gives for other rows what the ops themselves give."""

from itertools import pairwise

import pytest
import torch

from octavo_kernels import library as ops
from octavo_kernels.attention.backend import AttentionSpec, AttentionStep
from octavo_kernels.cpu import linear as cpu_linear
from octavo_kernels.cpu.attend import attend, plan_attend
from octavo_kernels.cpu.calls import clock, listen
from octavo_kernels.cpu.isa import choose_isa
from octavo_kernels.cpu.library import load_library
from octavo_kernels.cpu.program import record

WIDTH, MAX_TOKENS = 32, 12
SPEC = AttentionSpec(num_heads=4, num_kv_heads=2, head_size=8, scale=8**-0.5)


class Layer:
    """Everything that a decoder layer does, on places that stay."""

    def __init__(self, library, generator):
        def weights(outputs, inputs, *, gated=False):
            return cpu_linear.pack(library, torch.randn(outputs, inputs, generator=generator) / inputs**0.5, isa=self.isa, gated=gated)

        self.library, self.isa = library, choose_isa(library)
        self.norm = torch.rand(WIDTH, generator=generator)
        self.qkv, self.output = weights(64, WIDTH), weights(WIDTH, 32)
        self.gate_up, self.down = weights(40, WIDTH, gated=True), weights(WIDTH, 20)
        self.table = torch.randn(50, 8, generator=generator)
        self.cache = torch.zeros(10, 2, 2, 8, 8)
        self.carry = torch.zeros(MAX_TOKENS, WIDTH)
        self.positions = torch.zeros(MAX_TOKENS, dtype=torch.int64)
        self.query, self.key, self.value = (torch.zeros(MAX_TOKENS, heads, 8) for heads in (4, 2, 2))
        self.attended = torch.zeros(MAX_TOKENS, 4, 8)

    def fill(self, x, positions):
        self.cache.zero_()
        self.carry[: len(x)] = x
        self.positions[: len(x)] = positions

    def run(self, count, plan, next_piece=lambda: None):
        next_piece()
        carry, isa = self.carry[:count], self.isa
        projected = ops.linear(ops.rms_norm(carry, self.norm, 1e-5, 0.0), self.qkv, None, None, 64, isa)
        query, key, value = (part.view(count, -1, 8) for part in projected.split((32, 16, 16), dim=-1))
        query, key = ops.rotate(query, key, self.positions[:count], self.table)
        places = (self.query[:count], self.key[:count], self.value[:count])
        for place, tensor in zip(places, (query, key, value), strict=True):
            place.copy_(tensor)
        attend(self.library, SPEC, plan, *places, self.cache, self.attended[:count], isa=isa)
        next_piece()
        total = ops.linear(self.attended[:count].flatten(1), self.output, None, carry, WIDTH, isa)
        normed, total = ops.add_rms_norm(total, total, self.norm, 1e-5, 1.0)
        carry.copy_(ops.linear(ops.linear_gated(normed, self.gate_up, None, 20, "silu", isa), self.down, None, total, WIDTH, isa))


def plan_of(lengths):
    """Requests of these lengths whose rows are all of the step."""
    starts = [0]
    for length in lengths:
        starts.append(starts[-1] + length)
    tables = torch.arange(1, 2 * len(lengths) + 1, dtype=torch.int32).view(len(lengths), 2)
    slots = [int(tables[i, j // 8]) * 8 + j % 8 for i, length in enumerate(lengths) for j in range(length)]
    step = AttentionStep(
        query_start=torch.tensor(starts, dtype=torch.int32),
        seq_lens=torch.tensor(lengths, dtype=torch.int32),
        block_table=tables,
        slot_mapping=torch.tensor(slots),
        max_query_len=max(lengths),
        max_seq_len=max(lengths),
    )
    positions = torch.cat([torch.arange(length) for length in lengths])
    return plan_attend(load_library(), step, block_size=8), positions


@pytest.fixture
def layer(library, generator):
    return Layer(library, generator)


def recorded(layer, generator, lengths=(3, 2)):
    plan, positions = plan_of(lengths)
    layer.fill(torch.randn(len(positions), WIDTH, generator=generator), positions)
    with record(num_tokens=len(positions), max_tokens=MAX_TOKENS, plans=[plan]) as recorder:
        layer.run(len(positions), plan, recorder.next_piece)
    return recorder


@pytest.mark.parametrize("lengths", [(1,), (2,), (5,), (1, 1, 1), (9, 3)])
@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_program_gives_the_bits_of_its_ops_for_any_rows(layer, generator, lengths, num_threads):
    torch.set_num_threads(num_threads)
    program = recorded(layer, generator).program(layer.library)
    assert len(program) == 12
    plan, positions = plan_of(lengths)
    x = torch.randn(len(positions), WIDTH, generator=generator)
    results = []
    for run in (layer.run, lambda count, plan: program.run(count, [plan])):
        layer.fill(x, positions)
        run(len(x), plan)
        results.append((layer.carry[: len(x)].clone(), layer.attended[: len(x)].clone(), layer.cache.clone()))
    for expected, found in zip(*results, strict=True):
        assert torch.equal(found, expected)
    assert results[0][0].isfinite().all()


@pytest.mark.parametrize(("splits_programs", "num_told"), [(True, 12), (False, 1)])
def test_a_clocked_program_gives_the_same_bits_and_tells_of_its_calls(layer, generator, splits_programs, num_told):
    program = recorded(layer, generator).program(layer.library)
    plan, positions = plan_of((3, 4))
    x, told = torch.randn(7, WIDTH, generator=generator), []
    layer.fill(x, positions)
    program.run(7, [plan])
    expected = layer.carry[:7].clone()
    layer.fill(x, positions)
    with clock(lambda *call: told.append(call), splits_programs=splits_programs):
        program.run(7, [plan])
    assert torch.equal(layer.carry[:7], expected)
    assert len(told) == num_told
    assert all(start < end for _, start, end in told)
    assert all((task is None) != splits_programs for task, _, _ in told)
    assert [end <= start for (_, _, end), (_, start, _) in pairwise(told)] == [True] * (num_told - 1)
    program.run(7, [plan])
    assert len(told) == num_told


def test_ops_are_clocked_and_listened_to_at_once(layer):
    told, heard = [], []
    with clock(lambda *call: told.append(call), splits_programs=True), listen(heard.append):
        ops.rms_norm(layer.carry[:3], layer.norm, 1e-5, 0.0)
    ops.rms_norm(layer.carry[:3], layer.norm, 1e-5, 0.0)
    ((task, start, end),) = told
    assert heard == [task]
    assert start < end


def test_noting_down_changes_no_result(layer, generator):
    plan, positions = plan_of((4,))
    x = torch.randn(4, WIDTH, generator=generator)
    layer.fill(x, positions)
    layer.run(4, plan)
    expected = layer.carry[:4].clone()
    layer.fill(x, positions)
    with record(num_tokens=4, max_tokens=MAX_TOKENS, plans=[plan]) as recorder:
        layer.run(4, plan, recorder.next_piece)
    assert recorder.obstacle is None
    assert torch.equal(layer.carry[:4], expected)


@pytest.mark.parametrize(
    ("step", "obstacle"),
    [
        (lambda x: x + 1, "aten.add.Tensor"),
        (lambda x: x.sum().item(), "aten.sum"),
        (lambda x: x.add_(1), "aten.add_"),
        (lambda x: x.new_empty(3), "aten.new_empty"),
        (lambda x: torch.empty(4, 2, dtype=torch.bfloat16).copy_(x[:, :2]), "a copy that changes"),
        (lambda x: torch.empty(4, 2, 2).copy_(x.view(4, 4, 2)[:, ::2]), "a copy of rows with gaps"),
        (lambda x: ops.rms_norm(x.view(2, 4, 4)[0], x[0, :4], 1e-5, 0.0), None),
        (lambda x: ops.rms_norm(x.view(16, 2)[:6], x[0, :2], 1e-5, 0.0), "aten.empty"),
    ],
)
def test_what_is_no_call_is_an_obstacle(library, step, obstacle):
    x = torch.zeros(4, 8)
    with record(num_tokens=4, max_tokens=8, plans=[]) as recorder:
        step(x)
    found = recorder.obstacle
    assert (found is None) == (obstacle is None)
    assert obstacle is None or found.startswith(obstacle)


def test_an_argmax_and_other_plans_are_obstacles(layer, generator):
    plan, positions = plan_of((4,))
    layer.fill(torch.zeros(4, WIDTH), positions)
    with record(num_tokens=4, max_tokens=8, plans=[]) as recorder:
        layer.run(4, plan, recorder.next_piece)
    assert "another plan" in recorder.obstacle
    with record(num_tokens=4, max_tokens=8, plans=[]) as recorder:
        ops.linear_largest(layer.carry[:4], layer.qkv, None, 64, layer.isa)
    assert recorder.obstacle is not None


def hidden(layer, count):
    """A result, made of the carry."""
    normed = ops.rms_norm(layer.carry[:count], layer.norm, 1e-5, 0.0)
    return ops.linear(normed, layer.qkv, None, None, 64, layer.isa)


@pytest.mark.parametrize("count", [1, 2, 7, MAX_TOKENS])
def test_a_program_gives_its_result_for_any_rows(layer, generator, count):
    with record(num_tokens=2, max_tokens=MAX_TOKENS, plans=[]) as recorder:
        result = hidden(layer, 2)
    recorder.note_result(result.view(2, 4, 16))
    program = recorder.program(layer.library)
    layer.fill(torch.randn(count, WIDTH, generator=generator), torch.zeros(count, dtype=torch.int64))
    found = program.run(count)
    assert found.shape == (count, 4, 16)
    assert torch.equal(found.flatten(1), hidden(layer, count))


@pytest.mark.parametrize(
    "choose", [lambda layer, result: layer.carry[:2], lambda layer, result: result[:, ::2], lambda layer, result: result[:1]]
)
def test_another_result_is_an_obstacle(layer, choose):
    with record(num_tokens=2, max_tokens=MAX_TOKENS, plans=[]) as recorder:
        result = choose(layer, hidden(layer, 2))
    recorder.note_result(result)
    assert recorder.obstacle == "a result that no call made"


def test_a_failing_call_raises_what_the_op_raises(layer, generator):
    program = recorded(layer, generator).program(layer.library)
    plan, positions = plan_of((2,))
    layer.fill(torch.zeros(2, WIDTH), positions + 100)
    with pytest.raises(IndexError, match="a step"):
        program.run(2, [plan])


def test_pieces_share_memory(library):
    with record(num_tokens=2, max_tokens=8, plans=[]) as recorder:
        first = torch.empty(2, 3)
        second = torch.empty(2, 3)
        recorder.next_piece()
        third = torch.empty(2, 3)
    assert first.data_ptr() != second.data_ptr()
    assert first.data_ptr() == third.data_ptr()
    assert first.untyped_storage().nbytes() == 8 * 3 * 4
