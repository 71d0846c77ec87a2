"""The executor of one rank in the engine's own thread."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager

from octavo.engine.executor import Executor, FinishedStep, StepHandle
from octavo.engine.phases import phase
from octavo.engine.runner import ModelRunner, PoolSize
from octavo.env import let_waiting_threads_sleep
from octavo.profile.spans import SpanRecorder
from octavo.scheduler.plan import StepPlan


class InProcessExecutor(Executor):
    """Runs the one rank in the caller's thread."""

    _runner_class: "Future[type[ModelRunner]] | None" = None
    _runner: ModelRunner | None = None

    def prepare(self) -> None:
        if self._runner_class is None:
            let_waiting_threads_sleep()
            background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="octavo-import")
            self._runner_class = background.submit(self._import_runner)
            background.shutdown(wait=False)

    def start(self) -> PoolSize:
        self.prepare()
        assert self._runner_class is not None
        self._runner = self._runner_class.result()(self.config, self.registries)
        with phase("weights"):
            self._runner.load()
        with phase("KV pool, with the warm-up"):
            pool = self._runner.allocate_pool()
        self.decisions = self._runner.decisions
        return pool

    def _import_runner(self) -> "type[ModelRunner]":
        with phase("import"):
            return self.registries.runners.get(self.config.runner)

    def submit(self, plan: StepPlan) -> StepHandle:
        assert self._runner is not None, "submit comes after start"
        return FinishedStep(self._runner.execute(plan))

    def profiled(self, spans: SpanRecorder) -> AbstractContextManager[None]:
        assert self._runner is not None, "profiled comes after start"
        return self._runner.profiled(spans)

    def shutdown(self) -> None:
        if self._runner is not None:
            self._runner.shutdown()
