import pytest
import torch

from octavo_kernels.cpu.rotate import rotate
from octavo_kernels.reference import rope as reference


def table_of(generator, size, num_positions=50):
    angles = torch.rand(num_positions, size // 2, generator=generator) * 6.28
    return torch.cat((angles.cos(), angles.sin()), dim=1)


def heads(generator, num_rows, size, dtype):
    """Query and key of 5 and 2 heads, views of one projection."""
    fused = torch.randn(num_rows, 9, size, generator=generator).to(dtype)
    return fused[:, :5], fused[:, 5:7]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("size", "rotary_size"), [(64, 64), (64, 32), (40, 40), (80, 20), (128, 128)])
def test_equals_the_reference(library, generator, isa, dtype, size, rotary_size):
    query, key = heads(generator, 7, size, dtype)
    positions, table = torch.randint(0, 50, (7,), generator=generator), table_of(generator, rotary_size)
    outs = torch.empty(query.shape, dtype=dtype), torch.empty(key.shape, dtype=dtype)
    rotate(library, query, key, positions, table, *outs, isa=isa)
    for out, source in zip(outs, (query, key), strict=True):
        expected = reference.rotate(source, positions, table)
        torch.testing.assert_close(out, expected)
        assert torch.equal(out[..., rotary_size:], source[..., rotary_size:])


def test_may_write_where_it_reads(library, generator, isa):
    query, key = heads(generator, 300, 64, torch.bfloat16)
    positions, table = torch.randint(0, 50, (300,), generator=generator), table_of(generator, 64)
    expected = reference.rotate(query, positions, table), reference.rotate(key, positions, table)
    torch.set_num_threads(2)
    rotate(library, query, key, positions, table, query, key, isa=isa)
    torch.testing.assert_close((query, key), expected)


@pytest.mark.parametrize("position", [-1, 50])
def test_positions_without_a_row_in_the_table_are_refused(library, generator, isa, position):
    query, key = heads(generator, 2, 64, torch.float32)
    with pytest.raises(IndexError, match="position lies outside"):
        rotate(library, query, key, torch.tensor([3, position]), table_of(generator, 64), query, key, isa=isa)
