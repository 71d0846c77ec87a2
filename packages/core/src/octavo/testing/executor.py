"""An executor on the fake device, with faults on demand."""

from collections.abc import Callable

import msgspec

from octavo.engine.executor import Executor, FinishedStep, StepHandle
from octavo.engine.runner import PoolSize
from octavo.scheduler.plan import StepPlan, StepResult
from octavo.testing.device import FakeDevice

Faults = Callable[[StepPlan], dict[str, str]]
"""Which requests of a step fail, and why. May raise, as a runner does that cannot go on."""


class FakeExecutor(Executor):
    """Carries plans as bytes, as between processes, so that a plan that shares an object with the scheduler shows.

    Attributes:
        plans: every plan that was submitted.
    """

    def __init__(self, device: FakeDevice, *, max_in_flight: int = 1, faults: Faults | None = None) -> None:
        self.device = device
        self.max_in_flight = max_in_flight
        self.plans: list[StepPlan] = []
        self.is_shut_down = False
        self._faults = faults
        self._plan_coder = msgspec.msgpack.Decoder(StepPlan)
        self._result_coder = msgspec.msgpack.Decoder(StepResult)

    def start(self) -> PoolSize:
        num_blocks = self.device.num_blocks
        return PoolSize(num_blocks=num_blocks, max_model_len=num_blocks * min(self.device.block_sizes), num_bytes=0)

    def submit(self, plan: StepPlan) -> StepHandle:
        plan = self._plan_coder.decode(msgspec.msgpack.encode(plan))
        self.plans.append(plan)
        errors = self._faults(plan) if self._faults else {}
        result = self.device.execute(plan)
        tokens = {request_id: token_ids for request_id, token_ids in result.token_ids.items() if request_id not in errors}
        failed = msgspec.structs.replace(result, token_ids=tokens, errors=result.errors | errors)
        return FinishedStep(self._result_coder.decode(msgspec.msgpack.encode(failed)))

    def shutdown(self) -> None:
        self.is_shut_down = True
