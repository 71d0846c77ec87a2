"""Which kernels a runner takes on a CPU, and what it says about them."""

from dataclasses import replace

import pytest
import torch

from octavo.config.machine import read_machine
from octavo.errors import ConfigurationError
from octavo_kernels.native import load_native
from octavo_models.layers.packed_linear import PackedLinear
from octavo_models.runner import cpu_kernels
from octavo_models.runner.cpu_kernels import choose_cpu_isa, choose_linear_method, describe_cpu

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def _native() -> None:
    if load_native() is None:
        pytest.skip("the C++ library was not built")


@pytest.fixture
def _without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_kernels, "load_native", lambda: None)


@pytest.mark.usefixtures("_native")
def test_the_requested_instructions_are_used_until_others_are() -> None:
    (decision,) = choose_cpu_isa("portable", CPU)
    assert (decision.value, decision.reason) == ("portable", "requested")
    assert load_native().isa.name == "PORTABLE"  # type: ignore[union-attr]
    (decision,) = choose_cpu_isa("auto", CPU)
    assert decision.reason == "the fastest that this CPU has"
    assert load_native().isa.name.lower() == decision.value  # type: ignore[union-attr]


@pytest.mark.usefixtures("_native")
def test_instructions_that_the_cpu_lacks_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="does not run the instruction set 'neon'; it runs portable"):
        choose_cpu_isa("neon", CPU)


@pytest.mark.usefixtures("_without_library")
def test_instructions_need_the_library() -> None:
    assert choose_cpu_isa("auto", CPU) == ()
    with pytest.raises(ConfigurationError, match="'avx2' cannot be used: the C\\+\\+ library is not installed"):
        choose_cpu_isa("avx2", CPU)


def test_a_gpu_takes_no_instructions_of_a_cpu() -> None:
    assert choose_cpu_isa("auto", GPU) == ()
    with pytest.raises(ConfigurationError, match="the device is cuda"):
        choose_cpu_isa("avx2", GPU)


@pytest.mark.usefixtures("_native")
def test_weights_are_packed_on_a_cpu() -> None:
    method, decision = choose_linear_method(CPU, torch.bfloat16)
    assert isinstance(method, PackedLinear)
    assert decision.value == "packed"


def test_elsewhere_torch_multiplies_and_says_why() -> None:
    method, decision = choose_linear_method(GPU, torch.bfloat16)
    assert method is None
    assert (decision.value, decision.reason) == ("torch", "the device is cuda")


@pytest.mark.usefixtures("_native")
def test_types_that_the_kernels_do_not_know_are_left_to_torch() -> None:
    method, decision = choose_linear_method(CPU, torch.float64)
    assert method is None
    assert "float64" in decision.reason


@pytest.mark.usefixtures("_without_library")
def test_without_the_library_torch_multiplies() -> None:
    method, decision = choose_linear_method(CPU, torch.bfloat16)
    assert method is None
    assert "not installed" in decision.reason


@pytest.mark.usefixtures("_native")
@pytest.mark.parametrize(("pages", "expected"), [("always", "large"), ("madvise", "large"), ("never", "small"), ("unknown", "small")])
def test_cores_and_pages_are_explained(monkeypatch: pytest.MonkeyPatch, pages: str, expected: str) -> None:
    monkeypatch.setattr(cpu_kernels, "read_machine", lambda: replace(read_machine(), large_pages=pages))
    affinity, weights = describe_cpu(CPU)
    assert (affinity.name, weights.name, weights.value) == ("affinity", "weight_pages", expected)
    assert repr(pages) in weights.reason


@pytest.mark.usefixtures("_without_library")
def test_where_there_are_no_kernels_nothing_is_explained() -> None:
    assert describe_cpu(CPU) == describe_cpu(GPU) == ()
