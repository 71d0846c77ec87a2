"""The client's end of an engine that lives in the same process."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from octavo.engine.executor import Executor
from octavo.engine.load import LoadReport
from octavo.engine.loop import EngineLoop
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import EngineDeadError
from octavo.metrics.stats import EngineStats
from octavo.profile.steps import StepProfile


class InProcessClient:
    """Drives the loop in the caller's thread. A closed engine, or one that lost a step, answers with `EngineDeadError`.

    Args:
        loop: of the engine.
        executor: that the loop runs on; shut down by `close`.
    """

    def __init__(self, loop: EngineLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor
        self._closed = False

    def add(self, requests: Sequence[EngineRequest]) -> None:
        """Queue requests, all or none. Raises `InvalidRequestError` for one that can never run."""
        self._check_open()
        added: list[str] = []
        try:
            for request in requests:
                self._loop.add(request)
                added.append(request.request_id)
        except BaseException:
            self.abort(added)
            raise

    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests without a result; ids that the engine does not know, any more or at all, are fine."""
        for request_id in request_ids:
            self._loop.abort(request_id)

    def finish(self, request_id: str, num_output_tokens: int) -> EngineOutput | None:
        """End a request whose text reached a stop string with its first `num_output_tokens`: its last output, None for unknown ids."""
        return self._loop.finish(request_id, num_output_tokens)

    def step(self) -> list[EngineOutput]:
        """Run one step and return what requests gained in it. Raises `EngineDeadError` where the step was lost."""
        self._check_open()
        return self._loop.step()

    def has_work(self) -> bool:
        """Whether `step` would do something; False for an engine that is closed or dead."""
        return not self._closed and self._loop.has_work()

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. False, and nothing is done, while requests hold blocks."""
        self._check_open()
        return self._loop.reset_prefix_cache()

    def stats(self) -> EngineStats:
        """Counters and load at this moment."""
        return self._loop.stats()

    def load(self) -> LoadReport:
        """What runs and what waits at this moment; what was added since the last step counts as waiting."""
        return self._loop.load()

    def check(self) -> None:
        """Raise `EngineDeadError` where the engine cannot go on, also where it has not stepped into it yet; never waits."""
        self._check_open()
        self._loop.check()

    def profiled(self, profile: StepProfile) -> AbstractContextManager[None]:
        """Clock every step inside. Raises `ConfigurationError` on entry where the executor, or the runner, has no clocks."""
        self._check_open()
        return self._loop.profiled(profile)

    def close(self) -> None:
        """Release the model and the pool; calling it twice is fine."""
        self._closed = True
        self._executor.shutdown()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineDeadError("the engine is closed: start a new one")
