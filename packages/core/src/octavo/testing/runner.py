"""A runner without torch, for everything above the runner: registered as "octavo.testing.runner:FakeRunner"."""

from octavo.cache.spec import kv_groups
from octavo.config.engine import Decision, EngineConfig
from octavo.engine.runner import ModelRunner, PoolSize
from octavo.plugins.registries import Registries
from octavo.scheduler.plan import StepPlan, StepResult
from octavo.testing.device import FakeDevice

DEFAULT_NUM_BLOCKS = 64


class FakeRunner(ModelRunner):
    """Runs the fake model on a pool of the configured number of blocks, 64 where none is configured; loads no files."""

    def __init__(self, config: EngineConfig, registries: Registries) -> None:
        super().__init__(config, registries)
        self._num_blocks = config.cache.num_blocks or DEFAULT_NUM_BLOCKS
        groups = kv_groups(config.model, block_size=config.cache.block_size, dtype=config.cache.dtype)
        self._device = FakeDevice(
            [group.block_size for group in groups],
            num_blocks=self._num_blocks,
            windows=[group.spec.window for group in groups],
            vocab_size=config.model.vocab_size,
            max_num_seqs=config.scheduler.max_num_seqs,
            max_num_batched_tokens=config.scheduler.max_num_batched_tokens,
        )

    @classmethod
    def describe(cls, registries: Registries) -> tuple[Decision, ...]:  # noqa: ARG003
        return (Decision(name="runner", value="fake", reason="a test asked for it"),)

    def load(self) -> None:
        self.decisions = ()

    def allocate_pool(self) -> PoolSize:
        return PoolSize(num_blocks=self._num_blocks, max_model_len=self.config.load.max_model_len, num_bytes=0)

    def execute(self, plan: StepPlan) -> StepResult:
        return self._device.execute(plan)

    def shutdown(self) -> None:
        self._device = FakeDevice((self.config.cache.block_size,), num_blocks=self._num_blocks)
