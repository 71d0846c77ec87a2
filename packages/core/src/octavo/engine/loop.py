"""The engine's heartbeat: schedule, run, update."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from octavo.engine.executor import Executor, StepHandle
from octavo.engine.load import LoadReport
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import EngineDeadError, described
from octavo.metrics.stats import EngineStats
from octavo.profile.steps import StepProfile
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
        self._step_s = 0.0

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
        stats = self._scheduler.stats()
        stats.counters.step_s = self._step_s
        return stats

    def load(self) -> LoadReport:
        """What runs and what waits at this moment; what was added since the last step counts as waiting."""
        return self._scheduler.load()

    def step(self) -> list[EngineOutput]:
        """Open as many steps as the executor takes, wait for the oldest and return what came of it; [] where there is nothing to do.

        Raises `EngineDeadError` for whatever goes wrong in a step, also for what is no `Exception`, such as a panic of an extension. An
        interrupt and the program's exit inside a step are passed on, and the engine is dead too: nobody knows how far the step got.
        """
        self._check_alive()
        try:
            outputs = self._advance()
            if not self._scheduler.has_work():
                self._scheduler.check_integrity()
        except EngineDeadError as death:
            self._death = death
            raise
        except (KeyboardInterrupt, SystemExit) as interrupt:
            self._death = interrupt
            raise
        except BaseException as error:
            self._death = error
            raise EngineDeadError(f"a step failed: {described(error)}") from error
        return outputs

    @contextmanager
    def profiled(self, profile: StepProfile) -> Iterator[None]:
        """Clock every step inside. Raises `ConfigurationError` where the executor, or the runner, has no clocks."""
        with self._executor.profiled(profile.spans), profile.clock(self, "_advance", self._scheduler):
            yield

    def check(self) -> None:
        """Raise `EngineDeadError` where a step failed or the executor lost a rank; never waits."""
        self._check_alive()
        try:
            self._executor.check()
        except EngineDeadError as death:
            self._death = death
            raise

    def _advance(self) -> list[EngineOutput]:
        start = time.monotonic()
        while len(self._open) < self._executor.max_in_flight:
            plan = self._scheduler.schedule()
            if plan is None:
                break
            self._open.append((plan, self._executor.submit(plan)))
        if not self._open:
            assert not self._scheduler.has_work(), "requests wait, but nothing can run"
            return []
        plan, handle = self._open.popleft()
        outputs = self._scheduler.update(plan, handle.result())
        self._step_s += time.monotonic() - start
        return outputs

    def _check_alive(self) -> None:
        if self._death is not None:
            raise EngineDeadError(f"the engine is dead since a step failed: {described(self._death)}") from self._death
