"""Fixtures of the tests of C++ ops."""

import pytest

from octavo_kernels.cpu.isa import Isa, choose_isa, supported_isas


@pytest.fixture(params=[isa.name.lower() for isa in Isa])
def isa(request, library):
    """Each instruction set in turn, where the host runs it."""
    if request.param not in {isa.name.lower() for isa in supported_isas(library)}:
        pytest.skip(f"this host does not run {request.param}")
    return choose_isa(library, request.param)
