"""The torch runner through the suite that every runner passes."""

import pytest

from octavo.config.engine import EngineConfig
from octavo.plugins.manager import load_plugins
from octavo.plugins.registries import Registries
from octavo.testing.conformance import RUNNER_CASES, RunnerCase, check_runner
from octavo_models.runner.runner import TorchModelRunner
from octavo_models.testing import write_tiny_llama
from octavo_models.testing.dense import tiny_engine_config


@pytest.fixture(scope="module")
def registries() -> Registries:
    return load_plugins(allow=("kernels", "models")).registries


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> EngineConfig:
    return tiny_engine_config(write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny", vocab_size=320, seed=5))


@pytest.mark.parametrize("case", RUNNER_CASES, ids=str)
def test_the_torch_runner_conforms(config: EngineConfig, registries: Registries, case: RunnerCase) -> None:
    check_runner(lambda changed: TorchModelRunner(changed, registries), config, case)
