import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_kernels.attention import single_rows
from octavo_kernels.attention.rows import Chunk
from octavo_kernels.attention.sdpa import SdpaAttention
from octavo_kernels.testing import AttentionCase, check_attention


@given(st.integers(1, 1 << 20))
def test_padding_stays_below_a_quarter(count):
    rounded = single_rows.rounded_up(count)
    assert count <= rounded <= count * 1.25


@given(st.integers(1, 1 << 20))
def test_rounding_up_twice_changes_nothing(count):
    rounded = single_rows.rounded_up(count)
    assert single_rows.rounded_up(rounded) == rounded


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=20), st.sampled_from([None, 1, 5, 16, 40]))
def test_a_batch_reads_every_visible_key_once_and_no_other(lengths, window):
    table = torch.arange(1, 1 + len(lengths) * 40, dtype=torch.int32).view(len(lengths), 40)
    requests = [Chunk(request=i, first_row=i, num_rows=1, seq_len=length) for i, length in enumerate(lengths)]
    batches = single_rows.plan_single_rows(requests, table, block_size=8, window=window, dtype=torch.float32)
    seen = {}
    for batch in batches:
        for row, pages, mask in zip(batch.rows.tolist(), batch.pages, batch.mask, strict=True):
            slots = (pages[:, None] * 8 + torch.arange(8)).flatten()
            seen[row] = slots[mask.flatten() == 0].tolist()
    for row, length in enumerate(lengths):
        positions = range(0 if window is None else max(0, length - window), length)
        assert seen[row] == [int(table[row, position // 8]) * 8 + position % 8 for position in positions]


def test_large_batches_are_cut(monkeypatch):
    monkeypatch.setattr(single_rows, "MAX_GATHERED_TOKENS", 64)
    check_attention(SdpaAttention, AttentionCase(name="cut", steps=((30,) * 7, (1,) * 7), head_size=32))
