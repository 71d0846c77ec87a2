"""Servers to talk to: with a fake model, which starts at once, and with a tiny one that torch runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.testing.served import write_fake_model, write_fake_plugin
from octavo_models.testing import write_tiny_llama
from tests.server.running import Launcher

RUNNERS = """
import time
from octavo.errors import CheckpointError
from octavo.testing.runner import FakeRunner

class Slow(FakeRunner):
    "A step takes 20 ms."
    def execute(self, plan):
        time.sleep(0.02)
        return super().execute(plan)

class Damaged(FakeRunner):
    def load(self):
        raise CheckpointError("shard 2 of 3 is missing")

class Loading(FakeRunner):
    "Loads until somebody ends it."
    def load(self):
        time.sleep(600)

class Failing(FakeRunner):
    "Loses its tenth step."
    def execute(self, plan):
        time.sleep(0.02)
        if plan.step_id == 10:
            raise RuntimeError("the device is gone")
        return super().execute(plan)
"""
CONTEXT = 10_000
SMALL = ("--max-model-len", "128", "--block-size", "16", "--num-blocks", "12", "--max-num-seqs", "4", "--max-num-batched-tokens", "32")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plugin that brings fake runners."""
    folder = tmp_path_factory.mktemp("installed")
    write_fake_plugin(folder, runners=RUNNERS, names=("Slow", "Damaged", "Loading", "Failing"))
    return folder


@pytest.fixture(scope="session")
def fake_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fake_model(tmp_path_factory.mktemp("models"), max_position_embeddings=CONTEXT)


@pytest.fixture
def launch(installed: Path, fake_model: Path, tmp_path: Path) -> Iterator[Launcher]:
    """Starts servers of a model whose every step takes 20 ms; behind the test they are gone."""
    launcher = Launcher(fake_model, tmp_path, ("--runner", "slow", "--num-blocks", "2000"), {"PYTHONPATH": str(installed)})
    yield launcher
    launcher.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """Starts servers of a tiny Llama, with room for little."""
    folder = tmp_path_factory.mktemp("tiny")
    launcher = Launcher(write_tiny_llama(folder / "tiny"), folder, SMALL)
    yield launcher
    launcher.close()
