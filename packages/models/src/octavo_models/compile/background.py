"""Work beside the steps of an engine."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Background(Generic[Result]):
    """One piece of work in a thread of its own; the process does not wait for it when it ends.

    Args:
        work: is called once.
        name: of the thread.
    """

    def __init__(self, work: Callable[[], Result], name: str) -> None:
        self._work = work
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether `result` returns at once."""
        return not self._thread.is_alive()

    def result(self) -> Result:
        """Wait for what the work gave; raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        (result,) = self._results
        return result

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again for whoever asks for the result
            self._error = error
