"""The progress bar of a batch."""

import time
from types import TracebackType
from typing import Self

from octavo.output.group import RequestGroup


class Progress:
    """Counts finished prompts on stderr, with output tokens a second. A context manager.

    Args:
        total: prompts in the batch.
        enabled: show it at all.
    """

    def __init__(self, total: int, *, enabled: bool) -> None:
        self._total = total
        self._enabled = enabled
        self._num_tokens = 0

    def __enter__(self) -> Self:
        if self._enabled:
            from tqdm import tqdm

            self._bar = tqdm(total=self._total, desc="Prompts", unit="prompt", dynamic_ncols=True)
        self._start = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._enabled:
            self._bar.close()

    def finished(self, group: RequestGroup) -> None:
        """Count a prompt."""
        if not self._enabled:
            return
        self._num_tokens += group.num_output_tokens
        elapsed = time.monotonic() - self._start
        if elapsed > 0:
            self._bar.set_postfix_str(f"{self._num_tokens / elapsed:.1f} tokens/s", refresh=False)
        self._bar.update()
