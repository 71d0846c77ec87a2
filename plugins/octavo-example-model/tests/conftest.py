from pathlib import Path

import pytest
import torch

from octavo_example_model.checkpoint import write_checkpoint


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint."""
    return write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")
