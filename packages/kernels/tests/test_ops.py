"""The choice between C++ and plain torch, and what a compiler sees of it."""

import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from octavo_kernels import native, ops
from octavo_kernels.cpu.isa import Isa
from octavo_kernels.cpu.linear import pack
from octavo_kernels.library import OPS
from octavo_kernels.reference import activation, norm, rope


@pytest.fixture
def x(generator):
    return torch.randn(4, 32, generator=generator)


@pytest.fixture
def _without_library(monkeypatch):
    monkeypatch.setattr(native, "INSTALLED", False)


def arguments(x):
    """For each op its arguments."""
    table = torch.randn(10, 8, generator=torch.Generator().manual_seed(1))
    heads, positions = x.view(4, 4, 8), torch.tensor([0, 9, 3, 3])
    weight = torch.linspace(0.5, 2, 32)
    return {
        "rms_norm": (x, weight, 1e-5, 1.0),
        "add_rms_norm": (x, x.flip(0), weight, 1e-5, 0.0),
        "rotate": (heads[:, :3], heads[:, 3:], positions, table),
        "gate": (x, "gelu_tanh"),
    }


def linear_arguments(x, library):
    """The same for those that take packed weights."""
    weight, bias = torch.linspace(-1, 1, 6 * 32).view(6, 32), torch.linspace(0, 1, 6)
    plain, gated = pack(library, weight, isa=Isa.PORTABLE), pack(library, weight, isa=Isa.PORTABLE, gated=True)
    return {
        "linear": (x, plain, bias, x[:, :6].contiguous(), 6, Isa.PORTABLE),
        "linear_out": (x, plain, None, None, torch.empty(4, 6), Isa.PORTABLE),
        "linear_gated": (x, gated, bias, 3, "silu", Isa.PORTABLE),
        "linear_gated_out": (x, gated, bias, torch.empty(4, 3), "gelu_tanh", Isa.PORTABLE),
        "linear_largest": (x, plain, bias, 6, Isa.PORTABLE),
    }


def check_all(x):
    weight = torch.linspace(0.5, 2, 32)
    torch.testing.assert_close(ops.rms_norm(x, weight, 1e-5, offset=1.0), norm.rms_norm(x, weight, 1e-5, offset=1.0))
    torch.testing.assert_close(ops.add_rms_norm(x, x.flip(0), weight, 1e-5), norm.add_rms_norm(x, x.flip(0), weight, 1e-5))
    torch.testing.assert_close(ops.silu_and_mul(x), activation.silu_and_mul(x))
    torch.testing.assert_close(ops.gelu_tanh_and_mul(x), activation.gelu_tanh_and_mul(x))
    query, key, positions, table = arguments(x)["rotate"]
    expected = rope.rotate(query, positions, table), rope.rotate(key, positions, table)
    torch.testing.assert_close(ops.rotate(query, key, positions, table), expected)


@pytest.mark.usefixtures("library")
def test_equal_the_references_in_cpp(x):
    check_all(x)


@pytest.mark.usefixtures("_without_library")
def test_equal_the_references_without_the_library(x):
    check_all(x)


@pytest.mark.usefixtures("library")
def test_types_that_the_library_does_not_know_are_left_to_torch(x):
    check_all(x.double().to(torch.float32))
    weight = torch.ones(32, dtype=torch.float64)
    assert ops.rms_norm(x.double(), weight, 1e-5).dtype == torch.float64
    assert ops.rms_norm(x.bfloat16(), torch.ones(32), 1e-5).dtype == torch.bfloat16


@pytest.mark.parametrize("name", list(OPS))
def test_ops_are_registered_as_torch_wants_them(x, name, library):
    op = getattr(torch.ops.octavo, name).default
    checks = ("test_schema", "test_faketensor")
    assert set(torch.library.opcheck(op, (arguments(x) | linear_arguments(x, library))[name], test_utils=checks).values()) == {"SUCCESS"}


@pytest.mark.usefixtures("library")
def test_fake_tensors_get_shapes_and_no_memory_is_read(x):
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert ops.rms_norm(fake, mode.from_tensor(torch.ones(32)), 1e-5).shape == (4, 32)
        assert ops.silu_and_mul(fake).shape == (4, 16)


IMPORTS = """
import sys, torch
import octavo_kernels.attention.cpu, octavo_kernels.ops
from octavo_kernels.cpu.program import record
with record(num_tokens=2, max_tokens=4, plans=[]):
    torch.empty(2, 3).view(3, 2)
assert "torch._dynamo" not in sys.modules
"""


def test_importing_them_and_noting_them_down_imports_no_compiler():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)


@pytest.mark.usefixtures("_without_library")
def test_without_the_library_it_is_not_looked_for_again(x, monkeypatch):
    monkeypatch.setattr(native, "load_native", lambda: pytest.fail("the library was looked for"))
    check_all(x)


def piece(x, weight):
    return ops.silu_and_mul(ops.rms_norm(x, weight, 1e-5))


def graph_of(x):
    graphs = []

    def keep(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(piece, backend=keep, fullgraph=True)
    torch.testing.assert_close(compiled(x, torch.ones(32)), piece(x, torch.ones(32)))
    (graph,) = graphs
    return {str(node.target) for node in graph.graph.nodes if "octavo" in str(node.target)}


@pytest.mark.usefixtures("library")
def test_a_compiler_sees_two_ops(x):
    assert graph_of(x) == {"octavo.rms_norm", "octavo.gate"}


@pytest.mark.usefixtures("_without_library")
def test_without_the_library_a_compiler_sees_torch(x):
    assert not graph_of(x)
