"""Keys that several requests share are read once, and no bit tells."""

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo_kernels.attention import AttentionSpec, AttentionStep
from octavo_kernels.cpu.attend import SPLIT_KEYS, attend, plan_attend
from octavo_kernels.cpu.isa import choose_isa

SPEC = AttentionSpec(num_heads=3, num_kv_heads=1, head_size=64, scale=0.125)
BLOCK = 16


def table_of(prefixes, lengths, *, block_size=BLOCK):
    """A block table in which requests of one prefix (a tuple of (name, tokens), from the first on) share its blocks."""
    named, rows, fresh = {}, [], 1
    for prefix, length in zip(prefixes, lengths, strict=True):
        row, path = [], ()
        for name, tokens in prefix:
            path = (*path, name)
            if path not in named:
                named[path] = list(range(fresh, fresh + tokens // block_size))
                fresh += tokens // block_size
            row += named[path]
        row = row[: (length - 1) // block_size]
        own = -(-length // block_size) - len(row)
        rows.append(torch.tensor([*row, *range(fresh, fresh + own)]))
        fresh += own
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(torch.int32), fresh


def decode_step(table, lengths, rows=None):
    rows = rows or [1] * len(lengths)
    return AttentionStep(
        query_start=torch.tensor([0, *rows]).cumsum(0).to(torch.int32),
        seq_lens=torch.tensor(lengths, dtype=torch.int32),
        block_table=table,
        slot_mapping=torch.full((sum(rows),), -1),
        max_query_len=max(rows),
        max_seq_len=max(lengths),
    )


def run_step(library, step, query, cache, *, spec=SPEC, isa=None, shares=True):
    plan = plan_attend(library, step, block_size=cache.shape[3])
    nothing = query.new_zeros(len(query), spec.num_kv_heads, spec.head_size)
    out = torch.full_like(query, float("nan"))
    attend(
        library, spec, plan if shares else replace(plan, num_runs=0), query, nothing, nothing, cache, out, isa=isa or choose_isa(library)
    )
    return out


def runs_of(library, step, block_size=BLOCK):
    plan = plan_attend(library, step, block_size=block_size)
    return [(split, plan.members[first : first + count].tolist()) for split, first, count in plan.runs[: plan.num_runs].tolist()]


def test_runs_follow_the_tree_of_prefixes(library):
    system, tools = ("system", 512), ("tools", 256)
    lengths = [600, 900, 900, 600, 100]
    table, _ = table_of([[system], [system, tools], [system, tools], [("other", 512)], [system]], lengths)
    assert runs_of(library, decode_step(table, lengths)) == [(0, [0, 1, 2]), (1, [0, 1, 2]), (2, [1, 2])]


@pytest.mark.parametrize("length", [SPLIT_KEYS - 1, SPLIT_KEYS])
def test_a_split_is_shared_only_where_a_row_sees_more(library, length):
    table, _ = table_of([[("system", 512)]] * 2, [513, 513])
    assert not runs_of(library, decode_step(table, [length] * 2))
    assert runs_of(library, decode_step(table, [SPLIT_KEYS + 1] * 2)) == [(0, [0, 1])]


def test_chunks_of_prompts_and_padding_share_nothing(library):
    table, _ = table_of([[("system", 512)]] * 3, [600] * 3)
    assert not runs_of(library, decode_step(table, [600, 600, 0], rows=[2, 1, 1]))


def test_blocks_that_do_not_divide_a_split_are_not_shared(library):
    table = torch.arange(1, 41, dtype=torch.int32).repeat(2, 1)
    assert not runs_of(library, decode_step(table, [600, 600]), block_size=24)


@pytest.mark.parametrize(("spec", "dtype"), [(SPEC, torch.float32), (replace(SPEC, soft_cap=2.0), torch.bfloat16)])
def test_a_shared_prefix_changes_no_bit(library, generator, isa, spec, dtype):
    lengths = [513, 700, 1025, 1300, 513, *[640] * 30]
    prefixes = [[("system", 512)], [("system", 512)], [("system", 512), ("a", 512)], [("system", 512), ("a", 512)], [("b", 512)]]
    table, num_blocks = table_of([*prefixes, *[[("system", 512)]] * 30], lengths)
    cache = torch.randn(num_blocks, 2, 1, BLOCK, 64, generator=generator).to(dtype)
    query = torch.randn(len(lengths), 3, 64, generator=generator).to(dtype)
    step = decode_step(table, lengths)
    for threads in (1, 3):
        torch.set_num_threads(threads)
        shared = run_step(library, step, query, cache, spec=spec, isa=isa)
        assert torch.equal(shared, run_step(library, step, query, cache, spec=spec, isa=isa, shares=False))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mixed_steps_with_any_sharing_equal_rows_alone(library, data):
    generator = torch.Generator().manual_seed(3)
    parts = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([128, 256, 512]))
    prefixes = data.draw(st.lists(st.lists(parts, max_size=3), min_size=1, max_size=8))
    lengths = [data.draw(st.integers(1, 1100)) for _ in prefixes]
    rows = [data.draw(st.sampled_from([1, 1, 1, 5])) if length >= 5 else 1 for length in lengths]
    group = data.draw(st.sampled_from([1, 3, 7]))
    spec = replace(SPEC, num_heads=2 * group, num_kv_heads=2)
    table, num_blocks = table_of(prefixes, lengths)
    cache = torch.randn(num_blocks, 2, 2, BLOCK, 64, generator=generator)
    query = torch.randn(sum(rows), 2 * group, 64, generator=generator)
    torch.set_num_threads(data.draw(st.sampled_from([1, 2])))
    step = decode_step(table, lengths, rows)
    assert torch.equal(run_step(library, step, query, cache, spec=spec), run_step(library, step, query, cache, spec=spec, shares=False))


def test_windows_and_large_groups_share_nothing(library, generator):
    lengths = [600, 600]
    table, num_blocks = table_of([[("system", 512)]] * 2, lengths)
    for spec in (replace(SPEC, sliding_window=300), replace(SPEC, num_heads=32)):
        cache = torch.randn(num_blocks, 2, 1, BLOCK, 64, generator=generator)
        query = torch.randn(2, spec.num_heads, 64, generator=generator)
        step = decode_step(table, lengths)
        assert torch.equal(run_step(library, step, query, cache, spec=spec), run_step(library, step, query, cache, spec=spec, shares=False))


def test_members_that_do_not_exist_are_refused(library, generator):
    lengths = [600, 600]
    table, num_blocks = table_of([[("system", 512)]] * 2, lengths)
    plan = plan_attend(library, decode_step(table, lengths), block_size=BLOCK)
    cache, query = torch.zeros(num_blocks, 2, 1, BLOCK, 64), torch.zeros(2, 3, 64)
    for members in ([0, 7], [-1, 0]):
        wrong = replace(plan, members=torch.tensor(members * 4, dtype=torch.int32))
        with pytest.raises(IndexError, match="outside its tensor"):
            attend(library, SPEC, wrong, query, query[:, :1], query[:, :1], cache, torch.empty_like(query), isa=choose_isa(library))
