import pytest
import torch

from octavo_kernels.cpu.gate import gate
from octavo_kernels.reference.activation import GATES


@pytest.mark.parametrize("activation", list(GATES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [1, 8, 21, 1536])
def test_equals_the_reference(library, generator, isa, activation, dtype, width):
    both = torch.randn(5, 2 * width, generator=generator).mul(4).to(dtype)
    out = gate(library, both, activation, isa=isa)
    torch.testing.assert_close(out, GATES[activation](both), atol=1e-5, rtol=1e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("activation", list(GATES))
def test_extreme_gates_are_let_through_or_shut(library, isa, activation):
    both = torch.tensor([[1000.0, -1000.0, 0.0, float("nan"), 90.0, -90.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]])
    out = gate(library, both, activation, isa=isa)
    torch.testing.assert_close(out, torch.tensor([[2000.0, 0.0, 0.0, float("nan"), 180.0, 0.0]]), equal_nan=True)


def test_rows_of_a_view_are_read_as_they_lie(library, generator, isa):
    both = torch.randn(6, 100, generator=generator)[:, 10:74]
    out = gate(library, both, "silu", isa=isa)
    torch.testing.assert_close(out, GATES["silu"](both))
    assert out.is_contiguous()


def test_threads_do_not_change_a_bit(library, generator, isa):
    both = torch.randn(100, 2000, generator=generator)
    alone = gate(library, both, "silu", isa=isa)
    torch.set_num_threads(3)
    assert torch.equal(gate(library, both, "silu", isa=isa), alone)
