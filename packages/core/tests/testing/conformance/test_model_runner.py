import msgspec
import pytest

from octavo.config.engine import EngineConfig
from octavo.plugins.registries import Registries
from octavo.scheduler.plan import StepPlan, StepResult
from octavo.testing.config import fake_config
from octavo.testing.conformance import RUNNER_CASES, RunnerCase, check_runner
from octavo.testing.runner import FakeRunner

CONFIG = fake_config(num_blocks=None, vocab_size=500)


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
