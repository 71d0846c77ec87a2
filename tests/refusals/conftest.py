"""A tiny model to damage, the program to run it with, and an engine that has to survive whatever it refuses."""

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo import LLM
from octavo.cli.main import run
from octavo_models.testing import write_tiny_llama
from tests.refusals.engine import FLAGS, Finished, Survivor, answer


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model; nobody may change it."""
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def copied(tiny: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(tiny, tmp_path / "copied"))


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """The same model in two shards, to damage."""
    return write_tiny_llama(tmp_path / "sharded", shards=2)


@pytest.fixture
def start() -> Iterator[Callable[..., LLM]]:
    """Start engines that are closed behind the test."""
    started: list[LLM] = []

    def make(model: Path, **flags: Any) -> LLM:
        started.append(LLM(model, **FLAGS | flags))
        return started[-1]

    yield make
    for llm in started:
        llm.close()


@pytest.fixture
def tokens(start: Callable[..., LLM]) -> Callable[..., list[int]]:
    """What the model at a path answers to a fixed prompt."""
    return lambda model, **flags: answer(start(model, **flags))


@pytest.fixture(scope="session")
def shared(tiny: Path) -> Iterator[Survivor]:
    with LLM(tiny, **FLAGS) as llm:
        yield Survivor(llm, answer(llm))


@pytest.fixture
def survivor(shared: Survivor) -> Iterator[LLM]:
    """An engine of 12 blocks for tests that ask impossible things of it: afterwards it has to answer as ever."""
    yield shared.llm
    shared.check()


@pytest.fixture
def octavo(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Finished]]:
    """Run a command line in this process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def call(*arguments: str | Path) -> Finished:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Finished(code, captured.out, captured.err)

    yield call
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def generate(octavo: Callable[..., Finished]) -> Callable[..., Finished]:
    """`octavo generate` with a small pool and a short prompt."""
    return lambda model, *more: octavo("generate", "--model", model, "--num-blocks", "12", "--max-tokens", "4", "--raw", "hello", *more)
