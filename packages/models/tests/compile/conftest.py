"""A whole engine above the torch runner, driven step by step, with every knob of the compile configuration."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.config.compile import CompileConfig
from octavo.config.engine import EngineConfig
from octavo.engine.build import build_loop, model_info
from octavo.engine.inprocess import InProcessExecutor
from octavo.engine.loop import EngineLoop
from octavo.engine.messages import EngineRequest
from octavo.plugins.manager import load_plugins
from octavo.plugins.registries import Registries
from octavo.sampling_params import SamplingParams
from octavo.scheduler.policy import FirstComeFirstServed
from octavo_models.runner.runner import TorchModelRunner
from octavo_models.testing import write_tiny_llama
from octavo_models.testing.dense import tiny_engine_config

EAGER = CompileConfig(enforce_eager=True)
CHECKING = CompileConfig(graph_backend="checking")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def registries() -> Registries:
    return load_plugins(allow=("kernels", "models")).registries


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny", vocab_size=320, seed=5)


@dataclass
class SmallEngine:
    """An engine and what its requests gained."""

    loop: EngineLoop
    runner: TorchModelRunner
    tokens: dict[str, list[int]] = field(default_factory=dict)
    num_cached: dict[str, int] = field(default_factory=dict)

    def add(self, request_id: str, prompt: Sequence[int], *, leader: str | None = None, seed: int = 0, **params: Any) -> None:
        """Queue a request, greedy and deaf to the end of a sequence unless `params` differ."""
        settings = SamplingParams(**{"temperature": 0.0, "ignore_eos": True, "max_tokens": 12, **params})
        self.tokens[request_id] = []
        self.loop.add(
            EngineRequest(request_id=request_id, token_ids=list(prompt), params=settings, arrival_time=1.0, seed=seed, leader=leader)
        )

    def run(self, most: int = 500) -> dict[str, list[int]]:
        """Step until nothing is left."""
        for _ in range(most):
            if not self.loop.has_work():
                return self.tokens
            self.step()
        raise AssertionError(f"the engine still has work after {most} steps")

    def step(self) -> None:
        for output in self.loop.step():
            assert output.error is None, output.error
            self.tokens[output.request_id] += output.new_token_ids
            self.num_cached.setdefault(output.request_id, output.num_cached_tokens)


@pytest.fixture
def make_engine(folder: Path, registries: Registries) -> Iterator[Callable[..., SmallEngine]]:
    """`make_engine(compile_config, model=folder, **fields of EngineConfig)`."""
    executors: list[InProcessExecutor] = []

    def make(compile_config: CompileConfig, model: Path | None = None, **fields: Any) -> SmallEngine:
        config: EngineConfig = replace(tiny_engine_config(model or folder, **fields), compile=compile_config)
        executor = InProcessExecutor(config, registries, ())
        executors.append(executor)
        pool = executor.start()
        runner = executor._runner
        assert isinstance(runner, TorchModelRunner)
        return SmallEngine(build_loop(config, model_info(config, pool, registries), executor, FirstComeFirstServed()), runner)

    yield make
    for executor in executors:
        executor.shutdown()
