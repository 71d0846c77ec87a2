"""Fixtures of the kernel tests."""

from collections.abc import Iterator

import pytest
import torch

from octavo_kernels.cpu.library import load_library


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def library():
    loaded = load_library()
    if loaded is None:
        pytest.skip("the C++ library was not built")
    return loaded
