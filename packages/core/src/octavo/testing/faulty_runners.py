"""Fake runners that fail where real ones do, for what stands above them."""

from octavo.config.engine import Decision
from octavo.engine.runner import PoolSize
from octavo.errors import CheckpointError, ConfigurationError
from octavo.scheduler.plan import StepPlan, StepResult
from octavo.testing.runner import FakeRunner

DAMAGED = "model.safetensors is damaged: it ends 100 bytes early"
TOO_LARGE = "the KV pool needs 3 GiB and 1 GiB is there: lower --max-model-len"
OUT_OF_ORDER = "the device is out of order"
LAST_SOUND_STEP = 2
DECISION = Decision(name="attention_backend", value="books", reason="there is no other")


class DecidedRunner(FakeRunner):
    """Has something to say of its choices."""

    def load(self) -> None:
        self.decisions = (DECISION,)


class DamagedRunner(FakeRunner):
    """Finds that its files are damaged."""

    def load(self) -> None:
        raise CheckpointError(DAMAGED)


class TooLargeRunner(FakeRunner):
    """Finds no room for its pool."""

    def allocate_pool(self) -> PoolSize:
        raise ConfigurationError(TOO_LARGE)


class BreakingRunner(FakeRunner):
    """Loses every step after the first few."""

    def execute(self, plan: StepPlan) -> StepResult:
        if plan.step_id > LAST_SOUND_STEP:
            raise RuntimeError(OUT_OF_ORDER)
        return super().execute(plan)
