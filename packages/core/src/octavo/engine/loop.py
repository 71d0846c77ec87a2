"""The engine's heartbeat: schedule, run, update."""

from collections import deque

from octavo.engine.executor import Executor, StepHandle
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import EngineDeadError
from octavo.metrics.stats import EngineStats
from octavo.scheduler.plan import StepPlan
from octavo.scheduler.scheduler import Scheduler


class EngineLoop:
    """Drives a scheduler and an executor from one thread. After an exception in a step every call raises `EngineDeadError`."""

    def __init__(self, scheduler: Scheduler, executor: Executor) -> None:
        """`executor` is started."""
        self._scheduler = scheduler
        self._executor = executor
        self._open: deque[tuple[StepPlan, StepHandle]] = deque()
        self._death: BaseException | None = None

    def add(self, message: EngineRequest) -> None:
        """Queue a request. Raises `InvalidRequestError` where it could never run."""
        self._check_alive()
        self._scheduler.add(message)

    def abort(self, request_id: str) -> bool:
        """End a request without another output; False where there is none of that id. Never raises, not even when dead."""
        return self._death is None and self._scheduler.abort(request_id)

    def finish(self, request_id: str, num_output_tokens: int) -> EngineOutput | None:
        """End a request that met a stop string after `num_output_tokens`: its last output; None where there is none of that id.

        Never raises, not even when dead.
        """
        return self._scheduler.finish(request_id, num_output_tokens) if self._death is None else None

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. False, and nothing changes, while requests hold blocks."""
        self._check_alive()
        return self._scheduler.reset_prefix_cache()

    def has_work(self) -> bool:
        """Whether `step` would do something."""
        return self._death is None and self._scheduler.has_work()

    def stats(self) -> EngineStats:
        """Counters and gauges at this moment."""
        return self._scheduler.stats()

    def step(self) -> list[EngineOutput]:
        """Open as many steps as the executor takes, wait for the oldest and return what came of it; [] where there is nothing to do.

        Raises `EngineDeadError` for whatever goes wrong in a step. An interrupt inside a step is passed on, and the engine is dead too:
        nobody knows how far the step got.
        """
        self._check_alive()
        try:
            outputs = self._advance()
            if not self._scheduler.has_work():
                self._scheduler.check_integrity()
        except Exception as error:
            self._death = error
            raise EngineDeadError(f"a step failed: {type(error).__name__}: {error}") from error
        except BaseException as interrupt:
            self._death = interrupt
            raise
        return outputs

    def _advance(self) -> list[EngineOutput]:
        while len(self._open) < self._executor.max_in_flight:
            plan = self._scheduler.schedule()
            if plan is None:
                break
            self._open.append((plan, self._executor.submit(plan)))
        if not self._open:
            assert not self._scheduler.has_work(), "requests wait, but nothing can run"
            return []
        plan, handle = self._open.popleft()
        return self._scheduler.update(plan, handle.result())

    def _check_alive(self) -> None:
        if self._death is not None:
            raise EngineDeadError(f"the engine is dead since a step failed: {self._death!r}") from self._death
