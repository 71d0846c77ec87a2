from pathlib import Path

import msgspec
import pytest

from octavo.config.cache import CacheConfig
from octavo.config.engine import EngineConfig
from octavo.config.load import LoadConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.source import ModelFiles
from octavo.plugins.registries import Registries
from octavo.scheduler.plan import StepPlan, StepResult
from octavo.testing.conformance import RUNNER_CASES, RunnerCase, check_runner
from octavo.testing.runner import FakeRunner

CONFIG = EngineConfig(
    model=ModelConfig(
        architecture="fake",
        vocab_size=500,
        hidden_size=8,
        intermediate_size=8,
        num_layers=1,
        num_heads=1,
        num_kv_heads=1,
        head_size=8,
        rms_norm_eps=1e-5,
        rope=RopeConfig(theta=1e4, dim=8),
        max_position=256,
        tie_embeddings=True,
    ),
    load=LoadConfig(
        files=ModelFiles(name="fake", format="safetensors", folder=Path(), weights=()),
        dtype="float32",
        max_model_len=256,
        max_model_len_is_explicit=True,
        use_generation_config=False,
    ),
    cache=CacheConfig(
        block_size=16, dtype="float32", num_blocks=None, memory_bytes=None, memory_utilization=None, enable_prefix_caching=True
    ),
    scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=32),
    attention_backend="none",
    runner="fake",
    sampler="none",
    device="cpu",
    seed=None,
    decisions=(),
)


def make_runner(config: EngineConfig) -> FakeRunner:
    return FakeRunner(config, Registries())


@pytest.mark.parametrize("case", RUNNER_CASES, ids=str)
def test_the_fake_runner_conforms(case: RunnerCase) -> None:
    check_runner(make_runner, CONFIG, case)


class Faulty(FakeRunner):
    def execute(self, plan: StepPlan) -> StepResult:
        return self.spoil(plan, super().execute(plan))

    def spoil(self, plan: StepPlan, result: StepResult) -> StepResult:
        raise NotImplementedError


class LosesTokens(Faulty):
    def spoil(self, plan: StepPlan, result: StepResult) -> StepResult:
        return msgspec.structs.replace(result, token_ids={})


class MiscountsSteps(Faulty):
    def spoil(self, plan: StepPlan, result: StepResult) -> StepResult:
        return msgspec.structs.replace(result, step_id=plan.step_id + 1)


class DependsOnTheBatch(Faulty):
    def spoil(self, plan: StepPlan, result: StepResult) -> StepResult:
        return msgspec.structs.replace(result, token_ids={name: [len(plan.num_tokens)] for name in result.token_ids})


class LeavesTheVocabulary(Faulty):
    def spoil(self, plan: StepPlan, result: StepResult) -> StepResult:
        return msgspec.structs.replace(result, token_ids={name: [500] for name in result.token_ids})


@pytest.mark.parametrize(
    ("runner", "fault"),
    [
        (LosesTokens, "tokens came for"),
        (MiscountsSteps, "is answered as step"),
        (DependsOnTheBatch, "in company and .* alone"),
        (LeavesTheVocabulary, r"got \[500\]"),
    ],
)
def test_a_faulty_runner_is_found(runner: type[Faulty], fault: str) -> None:
    batch = next(case for case in RUNNER_CASES if case.name == "a batch")
    with pytest.raises(AssertionError, match=fault):
        check_runner(lambda config: runner(config, Registries()), CONFIG, batch)
