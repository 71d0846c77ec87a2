import pytest
import torch

from octavo_kernels.cpu.memory import LargePages


def test_tensors_are_cut_from_one_piece_and_aligned(library):
    pages = LargePages(library, [100, 64, 1])
    taken = [pages.take(size) for size in (100, 64, 1)]
    assert [len(tensor) for tensor in taken] == [100, 64, 1]
    assert all(tensor.data_ptr() % 64 == 0 for tensor in taken)
    assert len({tensor.untyped_storage().data_ptr() for tensor in taken}) == 1
    for value, tensor in enumerate(taken):
        tensor.fill_(value)
    assert [tensor.unique().tolist() for tensor in taken] == [[0], [1], [2]]
    assert pages.is_used_up


def test_no_more_is_taken_than_was_asked_for(library):
    pages = LargePages(library, [64])
    assert not pages.is_used_up
    with pytest.raises(AssertionError, match="more is taken"):
        pages.take(65)
    assert pages.take(64).dtype == torch.uint8
