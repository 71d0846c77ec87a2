"""What a step does as a program: one call of C++ where all of it is C++."""

import logging
from collections.abc import Callable, Sequence

from torch import Tensor

from octavo_kernels.cpu.attend import AttendPlan
from octavo_kernels.cpu.program import CpuProgram, record
from octavo_kernels.native import load_native

_log = logging.getLogger(__name__)


def attend_plans(plans: Sequence[object]) -> list[AttendPlan]:
    """The plans of attention that runs in C++, for each group of requests."""
    known = [plan for plan in plans if isinstance(plan, AttendPlan)]
    assert len(known) == len(plans), "the backend's plans are for C++"
    return known


def note_down(
    run: Callable[[Callable[[], None]], Tensor | None], *, num_tokens: int, max_tokens: int, plans: Sequence[AttendPlan] = ()
) -> CpuProgram | None:
    """Run something from Python and note down what it does.

    Args:
        run: does it, calls its argument before each piece, and returns the tensor [N, ...] that it gives, if any.
        num_tokens: N, at least `FEWEST_TOKENS`.
        max_tokens: rows of the largest step.
        plans: of attention, for each group of requests.

    Returns:
        What does it again for other tokens; None where not all of it is C++.
    """
    native = load_native()
    if native is None:
        return None
    with record(num_tokens=num_tokens, max_tokens=max_tokens, plans=plans) as recorder:
        result = run(recorder.next_piece)
    if result is not None:
        recorder.note_result(result)
    if recorder.obstacle is not None:
        _log.debug("steps run op by op, since they have %s", recorder.obstacle)
        return None
    program = recorder.program(native.library)
    _log.debug("noted down a program of %d calls", len(program))
    return program
