from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from octavo_kernels.cpu.isa import Isa, choose_isa, supported_isas
from octavo_kernels.cpu.paged_decode import paged_decode

SCALE = 0.125


@dataclass
class Batch:
    """Rows of given lengths over their own pages; 3 query heads, 1 KV head of 64."""

    query: Tensor
    cache: Tensor
    table: Tensor
    lengths: Tensor


def make_batch(lengths, generator, *, dtype=torch.float32, block_size=16):
    width = -(-max(lengths) // block_size)
    num_blocks = len(lengths) * width + 1
    cache = torch.randn(num_blocks, 2, 1, block_size, 64, generator=generator).to(dtype)
    table = (torch.randperm(num_blocks - 1, generator=generator) + 1).to(torch.int32).view(len(lengths), width)
    query = torch.randn(len(lengths), 3, 64, generator=generator).to(dtype)
    return Batch(query, cache, table, torch.tensor(lengths, dtype=torch.int32))


def attend(library, batch, *, rows=None, isa=None, window=None):
    out = torch.full_like(batch.query, float("nan"))
    rows = torch.arange(len(batch.lengths)) if rows is None else rows
    picked = batch.table[rows].contiguous(), batch.lengths[rows].contiguous()
    paged_decode(
        library,
        batch.query,
        batch.cache,
        out,
        rows=rows,
        block_table=picked[0],
        lengths=picked[1],
        scale=SCALE,
        window=window,
        isa=choose_isa(library, isa),
    )
    return out


@pytest.fixture(params=[isa.name.lower() for isa in Isa])
def isa(request, library):
    if request.param not in {isa.name.lower() for isa in supported_isas(library)}:
        pytest.skip(f"this host does not run {request.param}")
    return request.param


def test_a_row_is_the_same_alone_and_among_others_to_the_bit(library, generator, isa):
    batch = make_batch([1, 5, 2000, 64, 700, 512, 513], generator)
    together = attend(library, batch, isa=isa)
    for row in range(len(batch.lengths)):
        alone = attend(library, batch, rows=torch.tensor([row]), isa=isa)
        assert torch.equal(alone[row], together[row])


def test_threads_do_not_change_a_bit(library, generator, isa):
    batch = make_batch([3000, 40, 1100], generator, dtype=torch.bfloat16)
    results = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        results.append(attend(library, batch, isa=isa))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_rows_that_do_not_attend_are_left_alone(library, generator, isa):
    batch = make_batch([9, 30, 4], generator)
    out = attend(library, batch, rows=torch.tensor([2, 0]), isa=isa)
    assert out[[0, 2]].isfinite().all()
    assert out[1].isnan().all()


def test_nan_in_a_query_shows_in_its_row_only(library, generator, isa):
    batch = make_batch([70, 30], generator)
    batch.query[0, 1, 3] = float("nan")
    out = attend(library, batch, isa=isa)
    assert out[0, 1].isnan().all()
    assert out[0, [0, 2]].isfinite().all()
    assert out[1].isfinite().all()


def test_huge_scores_do_not_overflow(library, generator, isa):
    batch = make_batch([600, 1], generator)
    batch.query *= 1e4
    out = attend(library, batch, isa=isa)
    scores = (
        torch.einsum("hd,kd->hk", batch.query[0].double(), batch.cache[batch.table[0].long(), 0, 0].flatten(0, 1)[:600].double()) * SCALE
    )
    expected = scores.softmax(-1) @ batch.cache[batch.table[0].long(), 1, 0].flatten(0, 1)[:600].double()
    torch.testing.assert_close(out[0].double(), expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_results_are_rounded_to_nearest_even(library, generator, isa, dtype):
    lengths = [1, 1, 1, 1]
    batch = make_batch(lengths, generator, dtype=dtype)
    # The weight of a single key is one, so that what comes out is the value, exactly.
    special = torch.tensor([0.0, 6e-8, 1.0009766, 1.0078125, 65504.0, -3.0, 1e-5, 0.1], dtype=dtype)
    batch.cache[batch.table[0, 0], 1, 0, 0, :8] = special
    out = attend(library, batch, isa=isa)
    assert torch.equal(out[0, 0, :8], special)
    # The mean of two keys of equal score, exact in float32, has to be rounded.
    batch.query.zero_()
    batch.lengths.fill_(2)
    out = attend(library, batch, isa=isa)
    values = batch.cache[batch.table[:, 0].long(), 1, 0, :2].float()
    assert torch.equal(out[:, 0], values.mean(dim=1).to(dtype))


def test_blocks_outside_the_cache_are_refused(library, generator):
    batch = make_batch([20, 20], generator)
    batch.table[1, 1] = batch.cache.shape[0]
    with pytest.raises(IndexError, match="outside the cache"):
        attend(library, batch)


def test_lengths_beyond_the_block_table_are_refused(library, generator):
    batch = make_batch([20, 20], generator)
    batch.lengths[0] = 33
    with pytest.raises(IndexError, match="outside the cache"):
        attend(library, batch)


def test_blocks_before_the_window_are_not_looked_at(library, generator):
    batch = make_batch([40], generator)
    expected = attend(library, batch, window=8)
    batch.table[0, :2] = -1
    assert torch.equal(attend(library, batch, window=8), expected)
