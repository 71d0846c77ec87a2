import itertools
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from octavo_kernels.attention import AttentionSpec, AttentionStep
from octavo_kernels.cpu.attend import attend, plan_attend
from octavo_kernels.cpu.isa import choose_isa
from octavo_kernels.reference import kv_store

SPEC = AttentionSpec(num_heads=3, num_kv_heads=1, head_size=64, scale=0.125)
BLOCK = 16


@dataclass(frozen=True)
class Sequences:
    """Whole sequences: queries of all tokens, and a cache that holds their keys and values already."""

    queries: list[Tensor]
    cache: Tensor
    table: Tensor


@dataclass(frozen=True)
class Part:
    """Tokens [first, last) of a sequence."""

    sequence: int
    first: int
    last: int


def make_sequences(lengths, generator, *, spec=SPEC, dtype=torch.float32):
    width = -(-max(lengths) // BLOCK)
    num_blocks = len(lengths) * width + 1
    cache = torch.randn(num_blocks, 2, spec.num_kv_heads, BLOCK, spec.head_size, generator=generator).to(dtype)
    table = (torch.randperm(num_blocks - 1, generator=generator) + 1).to(torch.int32).view(len(lengths), width)
    queries = [torch.randn(length, spec.num_heads, spec.head_size, generator=generator).to(dtype) for length in lengths]
    return Sequences(queries, cache, table)


def attend_parts(library, sequences, parts, *, isa=None, spec=SPEC):
    """The output of each part, all of them computed in one step."""
    starts = torch.tensor([0, *(part.last - part.first for part in parts)]).cumsum(0)
    query = torch.cat([sequences.queries[part.sequence][part.first : part.last] for part in parts])
    step = AttentionStep(
        query_start=starts.to(torch.int32),
        seq_lens=torch.tensor([part.last for part in parts], dtype=torch.int32),
        block_table=sequences.table[[part.sequence for part in parts]],
        slot_mapping=torch.full((len(query),), -1),
        max_query_len=0,
        max_seq_len=0,
    )
    nothing = query.new_zeros(len(query), spec.num_kv_heads, spec.head_size)
    out = torch.full_like(query, float("nan"))
    attend(
        library,
        spec,
        plan_attend(library, step, block_size=BLOCK),
        query,
        nothing,
        nothing,
        sequences.cache,
        out,
        isa=isa or choose_isa(library),
    )
    return out.split([part.last - part.first for part in parts])


def whole(sequences):
    return [Part(number, 0, len(queries)) for number, queries in enumerate(sequences.queries)]


def last_rows(sequences):
    return [Part(number, len(queries) - 1, len(queries)) for number, queries in enumerate(sequences.queries)]


VARIANTS = {
    "plain": (SPEC, torch.float32),
    "bfloat16": (SPEC, torch.bfloat16),
    "float16-window": (replace(SPEC, sliding_window=70), torch.float16),
    "bfloat16-soft-cap": (replace(SPEC, soft_cap=1.5, num_heads=8, num_kv_heads=2), torch.bfloat16),
    "odd-head": (replace(SPEC, head_size=40), torch.bfloat16),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_row_is_the_same_alone_and_in_a_chunk_to_the_bit(library, generator, isa, variant):
    spec, dtype = VARIANTS[variant]
    sequences = make_sequences([530, 64, 1], generator, spec=spec, dtype=dtype)
    chunks = attend_parts(library, sequences, whole(sequences), isa=isa, spec=spec)
    for number, chunk in enumerate(chunks):
        for token in {0, 1, 15, 62, 63, 64, 255, 256, 257, 400, 511, 512, 529} & set(range(len(chunk))):
            (alone,) = attend_parts(library, sequences, [Part(number, token, token + 1)], isa=isa, spec=spec)
            assert torch.equal(alone[0], chunk[token]), (number, token)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_neither_cuts_nor_neighbours_nor_threads_change_a_bit(library, data):
    generator = torch.Generator().manual_seed(1)
    spec = replace(SPEC, sliding_window=data.draw(st.sampled_from([None, 1, 40, 300])))
    lengths = data.draw(st.lists(st.integers(1, 600), min_size=1, max_size=3))
    sequences = make_sequences(lengths, generator, spec=spec, dtype=data.draw(st.sampled_from([torch.float32, torch.bfloat16])))
    expected = attend_parts(library, sequences, whole(sequences), spec=spec)
    cuts = [sorted({0, length, *data.draw(st.sets(st.integers(1, length), max_size=4))}) for length in lengths]
    parts = [Part(number, first, last) for number, cut in enumerate(cuts) for first, last in itertools.pairwise(cut)]
    order = data.draw(st.permutations(parts))
    torch.set_num_threads(data.draw(st.sampled_from([1, 2, 3])))
    for part, out in zip(order, attend_parts(library, sequences, order, spec=spec), strict=True):
        assert torch.equal(out, expected[part.sequence][part.first : part.last])


def test_long_rows_are_spread_over_threads_with_the_same_bits(library, generator, isa):
    sequences = make_sequences([3000, 40, 1100], generator, dtype=torch.bfloat16)
    results = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        results.append(attend_parts(library, sequences, last_rows(sequences), isa=isa))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_what_lies_behind_a_sequence_is_not_looked_at(library, generator, isa):
    sequences = make_sequences([37, 20], generator, dtype=torch.bfloat16)
    expected = attend_parts(library, sequences, whole(sequences), isa=isa)
    sequences.cache[sequences.table[0, 2].item(), :, :, 37 % BLOCK :] = float("nan")
    for before, after in zip(expected, attend_parts(library, sequences, whole(sequences), isa=isa), strict=True):
        assert torch.equal(before, after)


def test_nan_in_a_query_shows_in_its_row_only(library, generator, isa):
    sequences = make_sequences([700, 30], generator)
    sequences.queries[0][69, 1, 3] = float("nan")
    first, second = attend_parts(library, sequences, whole(sequences), isa=isa)
    assert first[69, 1].isnan().all()
    assert first[69, [0, 2]].isfinite().all()
    assert first[:69].isfinite().all()
    assert first[70:].isfinite().all()
    assert second.isfinite().all()


def test_nan_in_a_key_shows_in_every_row_that_sees_it(library, generator, isa):
    sequences = make_sequences([600], generator)
    sequences.cache[sequences.table[0, 300 // BLOCK].item(), 0, 0, 300 % BLOCK] = float("nan")
    (out,) = attend_parts(library, sequences, whole(sequences), isa=isa)
    assert out[:256].isfinite().all()
    assert out[300:].isnan().all()


def test_huge_scores_do_not_overflow(library, generator, isa):
    sequences = make_sequences([600], generator)
    sequences.queries[0].mul_(1e4)
    (out,) = attend_parts(library, sequences, last_rows(sequences), isa=isa)
    keys, values = (sequences.cache[sequences.table[0].long(), side, 0].flatten(0, 1)[:600].double() for side in (0, 1))
    expected = (torch.einsum("hd,kd->hk", sequences.queries[0][-1].double(), keys) * SPEC.scale).softmax(-1) @ values
    torch.testing.assert_close(out[0].double(), expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_results_are_rounded_to_nearest_even(library, generator, isa, dtype):
    sequences = make_sequences([2, 2], generator, dtype=dtype)
    # The weight of a single key is one, so that what comes out is the value, exactly.
    special = torch.tensor([0.0, 6e-8, 1.0009766, 1.0078125, 65504.0, -3.0, 1e-5, 0.1], dtype=dtype)
    sequences.cache[sequences.table[0, 0].item(), 1, 0, 0, :8] = special
    first, _ = attend_parts(library, sequences, whole(sequences), isa=isa)
    assert torch.equal(first[0, 0, :8], special)
    # The mean of two keys of equal score, exact in float32, has to be rounded.
    for queries in sequences.queries:
        queries.zero_()
    outs = attend_parts(library, sequences, whole(sequences), isa=isa)
    values = sequences.cache[sequences.table[:, 0].long(), 1, 0, :2].float()
    assert torch.equal(torch.stack([out[1, 0] for out in outs]), values.mean(dim=1).to(dtype))


@pytest.mark.parametrize("lost", [-(1 << 24), 0])
def test_blocks_before_the_window_are_not_looked_at(library, generator, isa, lost):
    sequences = make_sequences([40], generator, dtype=torch.bfloat16)
    spec = replace(SPEC, sliding_window=8)
    parts = [Part(0, 38, 40)]
    (expected,) = attend_parts(library, sequences, parts, spec=spec, isa=isa)
    sequences.cache[0] = float("nan")
    sequences.table[0, :1] = lost
    (out,) = attend_parts(library, sequences, parts, spec=spec, isa=isa)
    assert torch.equal(out, expected)


def test_blocks_outside_the_cache_are_refused(library, generator):
    sequences = make_sequences([20, 20], generator)
    sequences.table[1, 1] = sequences.cache.shape[0]
    with pytest.raises(IndexError, match="outside its tensor"):
        attend_parts(library, sequences, whole(sequences))


def test_lengths_beyond_the_block_table_are_refused(library, generator):
    sequences = make_sequences([20, 20], generator)
    with pytest.raises(IndexError, match="outside its tensor"):
        attend_parts(library, replace(sequences, table=sequences.table[:, :1]), whole(sequences))


def step_of(slots, *, starts=(0,), lengths=(), width=1):
    return AttentionStep(
        query_start=torch.tensor(starts, dtype=torch.int32),
        seq_lens=torch.tensor(lengths, dtype=torch.int32),
        block_table=torch.ones(len(lengths), width, dtype=torch.int32),
        slot_mapping=torch.as_tensor(slots, dtype=torch.int64),
        max_query_len=0,
        max_seq_len=0,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("num_rows", [0, 1, 5, 60])
def test_keys_and_values_go_to_their_slots(library, generator, dtype, num_rows):
    query, key, value = torch.randn(num_rows, 8, 24, generator=generator).to(dtype).split((2, 3, 3), dim=1)
    pool = torch.randn(10, 2, 2, 3, 8, 24, generator=generator).to(dtype)
    expected = pool.clone()
    slots = torch.randperm(80, generator=generator)[:num_rows]
    slots[::4] = -1
    spec = replace(SPEC, num_heads=3, num_kv_heads=3, head_size=24)
    query = torch.cat((query, key[:, :1]), dim=1)
    out = torch.full_like(query, float("nan"))
    attend(library, spec, plan_attend(library, step_of(slots), block_size=8), query, key, value, pool[:, 1], out, isa=choose_isa(library))
    kv_store.store_kv(key, value, expected[:, 1], slots)
    assert torch.equal(pool, expected)
    assert not out.any(), "rows of nobody put out zeros"


def test_slots_outside_the_cache_are_refused_before_anything_is_written(library):
    cache = torch.zeros(2, 2, 1, 8, 64)
    query, rows = torch.ones(2, 3, 64), torch.ones(2, 1, 64)
    with pytest.raises(IndexError, match="outside its tensor"):
        attend(
            library,
            SPEC,
            plan_attend(library, step_of([0, 16]), block_size=8),
            query,
            rows,
            rows,
            cache,
            torch.empty_like(query),
            isa=choose_isa(library),
        )
    assert not cache.any()


def test_more_rows_than_tokens_are_refused(library):
    cache = torch.zeros(2, 2, 1, 8, 64)
    query, rows = torch.ones(3, 3, 64), torch.ones(3, 1, 64)
    plan = plan_attend(library, step_of([-1] * 3, starts=(0, 3), lengths=(2,)), block_size=8)
    with pytest.raises(IndexError, match="outside its tensor"):
        attend(library, SPEC, plan, query, rows, rows, cache, torch.empty_like(query), isa=choose_isa(library))
