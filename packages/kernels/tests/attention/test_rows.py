import pytest
import torch

from octavo_kernels.attention import AttentionStep
from octavo_kernels.attention.rows import Chunk, sort_rows


def make_step(starts, lengths, num_rows):
    return AttentionStep(
        query_start=torch.tensor(starts, dtype=torch.int32),
        seq_lens=torch.tensor(lengths, dtype=torch.int32),
        block_table=torch.zeros(len(lengths), 4, dtype=torch.int32),
        slot_mapping=torch.full((num_rows,), -1, dtype=torch.int64),
        max_query_len=8,
        max_seq_len=64,
    )


def test_rows_are_sorted_by_how_they_attend():
    rows = sort_rows(make_step([0, 1, 4, 4, 5], [7, 3, 9, 1], 5))
    assert rows.single == (Chunk(request=0, first_row=0, num_rows=1, seq_len=7), Chunk(request=3, first_row=4, num_rows=1, seq_len=1))
    assert rows.chunks == (Chunk(request=1, first_row=1, num_rows=3, seq_len=3),)
    assert rows.idle == ()


def test_rows_of_nobody_and_of_empty_requests_are_idle():
    rows = sort_rows(make_step([0, 1, 3], [5, 0], 6))
    assert len(rows.single) == 1
    assert sorted(rows.idle) == [1, 2, 3, 4, 5]


def test_more_rows_than_tokens_is_a_bug():
    with pytest.raises(AssertionError, match="3 rows of 2 tokens"):
        sort_rows(make_step([0, 3], [2], 3))
