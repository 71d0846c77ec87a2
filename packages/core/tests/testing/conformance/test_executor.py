from pathlib import Path

import msgspec
import pytest

from octavo.engine.executor import Executor, FinishedStep, StepHandle
from octavo.engine.inprocess import InProcessExecutor
from octavo.engine.multiprocess import MultiprocessExecutor
from octavo.engine.runner import PoolSize
from octavo.errors import ConfigurationError
from octavo.scheduler.plan import StepPlan
from octavo.testing.conformance import EXECUTOR_CASES, ExecutorCase, check_executor


@pytest.mark.parametrize("executor", [InProcessExecutor, MultiprocessExecutor])
@pytest.mark.parametrize("case", EXECUTOR_CASES, ids=str)
def test_conforms(executor: type[Executor], case: ExecutorCase, tmp_path: Path) -> None:
    check_executor(executor, case, tmp_path)


class ChangesTokens(InProcessExecutor):
    def submit(self, plan: StepPlan) -> StepHandle:
        result = super().submit(plan).result()
        return FinishedStep(msgspec.structs.replace(result, token_ids={name: [7] for name in result.token_ids}))


class Silent(InProcessExecutor):
    def start(self) -> PoolSize:
        pool = super().start()
        self.decisions = ()
        return pool


class Vague(InProcessExecutor):
    def start(self) -> PoolSize:
        try:
            return super().start()
        except Exception as error:
            raise ConfigurationError("it does not start") from error


@pytest.mark.parametrize(
    ("executor", "case", "fault"),
    [
        (ChangesTokens, "serves a crowd", "reads KV that is not its own"),
        (Silent, "tells decisions", "the executor says"),
        (Vague, "damaged files", "raises CheckpointError gave ConfigurationError"),
        (Vague, "no room", "says 'the KV pool"),
    ],
)
def test_a_faulty_executor_is_found(executor: type[Executor], case: str, fault: str, tmp_path: Path) -> None:
    chosen = next(known for known in EXECUTOR_CASES if known.name == case)
    with pytest.raises(AssertionError, match=fault):
        check_executor(executor, chosen, tmp_path)
