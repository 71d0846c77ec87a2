"""A line about the load under way, on a terminal."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from octavo_server.bench.client import LoadState

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressLine:
    """Shows a load on standard error where that is a terminal, and nothing elsewhere.

    It draws only when it is called, so it takes no processor time of its own from the server beside it.
    """

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._seen: tuple[float, int] | None = None

    def __enter__(self) -> "ProgressLine":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("requests"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, state: LoadState) -> None:
        """Show where a load is."""
        if self._progress is None:
            return
        if self._task is None:
            self._task = self._progress.add_task("", total=state.num_requests)
        failed = f", {state.num_failed} failed" if state.num_failed else ""
        text = f"{state.num_running} running{failed}, {self._rate(state):,.0f} events/s"
        self._progress.update(self._task, completed=state.num_done, description=text, refresh=True)

    def _rate(self, state: LoadState) -> float:
        """Events with output a second since the last call."""
        now, before = time.perf_counter(), self._seen
        self._seen = (now, state.num_events)
        return 0.0 if before is None or now <= before[0] else (state.num_events - before[1]) / (now - before[0])
