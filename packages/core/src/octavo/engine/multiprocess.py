"""The executor whose ranks are processes of their own on this machine."""

import logging
import time

from octavo.engine.executor import Executor, StepHandle
from octavo.engine.runner import PoolSize
from octavo.engine.worker_messages import StartWorker, encode, pack_config
from octavo.engine.workers import WorkerGroup
from octavo.env import let_waiting_threads_sleep
from octavo.errors import EngineDeadError
from octavo.scheduler.plan import StepPlan, StepResult

_GRACE_S = 10.0
"""Seconds that an idle worker gets to release its device."""

_log = logging.getLogger(__name__)


class MultiprocessExecutor(Executor):
    """Every rank gets the same plan, as bytes that were made once; the result of rank 0 counts.

    A rank that dies or freezes makes `result` raise `EngineDeadError`. No worker outlives this process or `shutdown`.

    Attributes:
        num_steps: steps that are over.
        overhead_s: seconds of these steps in which no runner was busy: encoding, the way there and back, decoding.
    """

    num_ranks = 1
    _workers: WorkerGroup | None = None
    _is_idle = False
    num_steps = 0
    overhead_s = 0.0

    @property
    def process_ids(self) -> list[int]:
        """Of the workers, by rank; empty before `prepare` and after `shutdown`."""
        return [] if self._workers is None else self._workers.process_ids

    def prepare(self) -> None:
        if self._workers is not None:
            return
        let_waiting_threads_sleep()
        config = pack_config(self.config)
        self._workers = WorkerGroup(self.num_ranks)
        self._workers.send(encode(StartWorker(rank=rank, plugins=self.plugins, config=config)) for rank in range(self.num_ranks))

    def start(self) -> PoolSize:
        self.prepare()
        assert self._workers is not None
        started = self._workers.gather_started()
        assert all(rank.pool == started[0].pool for rank in started), "ranks disagree on the size of the KV pool"
        self.decisions = started[0].decisions
        self._is_idle = True
        return started[0].pool

    def submit(self, plan: StepPlan) -> StepHandle:
        assert self._workers is not None, "submit comes after start"
        assert self._is_idle, "the step before has not been asked for its result"
        self._is_idle = False
        handle = _OpenStep(self, time.perf_counter())
        self._workers.broadcast(encode(plan))
        return handle

    def finish_step(self, submitted_at: float) -> StepResult:
        """Wait for the step under way, which was begun at `submitted_at` seconds of `time.perf_counter`; for its handle only."""
        assert self._workers is not None, "the executor is shut down"
        done = self._workers.gather_done()
        self._is_idle = True
        self.num_steps += 1
        self.overhead_s += time.perf_counter() - submitted_at - max(rank.busy_s for rank in done)
        assert done[0].result is not None, "rank 0 tells what came of a step"
        return done[0].result

    def check(self) -> None:
        if self._workers is None:
            return
        try:
            self._workers.check()
        except EngineDeadError:
            self._is_idle = False
            raise

    def shutdown(self) -> None:
        if self._workers is None:
            return
        workers, self._workers = self._workers, None
        # What is under way has nobody left to want it.
        workers.end(_GRACE_S if self._is_idle else 0.0)
        if self.num_steps:
            mean_us = 1e6 * self.overhead_s / self.num_steps
            _log.info("%d steps went to worker processes and back, which took %.0f microseconds each on average", self.num_steps, mean_us)


class _OpenStep:
    def __init__(self, executor: MultiprocessExecutor, submitted_at: float) -> None:
        self._executor = executor
        self._submitted_at = submitted_at
        self._result: StepResult | None = None

    def result(self) -> StepResult:
        if self._result is None:
            self._result = self._executor.finish_step(self._submitted_at)
        return self._result
