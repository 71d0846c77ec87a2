"""Steps of pieces and borders as programs: one call of C++ where all that they do is C++."""

import logging
from collections.abc import Callable, Sequence

from octavo_kernels.cpu.attend import AttendPlan
from octavo_kernels.cpu.program import FEWEST_TOKENS, CpuProgram, record
from octavo_kernels.native import load_native

_log = logging.getLogger(__name__)


class StepProgram:
    """Runs pieces and borders from Python until it could note down what they do, and that from then on.

    Args:
        max_tokens: rows of the largest step.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._program: CpuProgram | None = None
        self._may_record = max_tokens >= FEWEST_TOKENS

    def run(self, num_tokens: int, plans: Sequence[object], step: Callable[[Callable[[], None]], None]) -> None:
        """Run one step.

        Args:
            num_tokens: its rows.
            plans: of attention, for each group of requests.
            step: runs it from Python, and calls its argument before each piece.
        """
        known = [plan for plan in plans if isinstance(plan, AttendPlan)]
        if len(known) < len(plans):
            step(_nothing)
        elif self._program is not None:
            self._program.run(num_tokens, known)
        elif self._may_record and num_tokens >= FEWEST_TOKENS:
            self._record(num_tokens, known, step)
        else:
            step(_nothing)

    def _record(self, num_tokens: int, plans: Sequence[AttendPlan], step: Callable[[Callable[[], None]], None]) -> None:
        native = load_native()
        assert native is not None, "plans of this kind are made where the library is"
        self._may_record = False
        with record(num_tokens=num_tokens, max_tokens=self._max_tokens, plans=plans) as recorder:
            step(recorder.next_piece)
        if recorder.obstacle is not None:
            _log.debug("steps run op by op, since they have %s", recorder.obstacle)
            return
        self._program = recorder.program(native.library)
        _log.debug("steps run as programs of %d calls", len(self._program))


def _nothing() -> None:
    """Nobody notes down where pieces begin."""
