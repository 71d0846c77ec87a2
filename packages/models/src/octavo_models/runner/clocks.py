"""Clocks around the parts of a step, put up for as long as it is profiled."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from octavo.profile.parts import Part
from octavo.profile.spans import Detail, SpanRecorder
from octavo_kernels.cpu.abi import Attention, Copy, Linear
from octavo_kernels.cpu.calls import Task, clock
from octavo_models.runner.step import Step

_PARTS_OF_TASKS: dict[type, Part] = {Linear: Part.LINEAR, Attention: Part.ATTENTION, Copy: Part.OTHER_OPS}
_PRODUCTS = frozenset({"mm", "addmm", "linear", "bmm", "baddbmm", "matmul", "_grouped_mm"})
_MOVES = frozenset({"embedding", "copy_", "clone", "_to_copy", "index", "index_select", "gather", "cat", "empty", "empty_like"})
_VIEWS = frozenset(
    {"view", "slice", "select", "split", "split_with_sizes", "transpose", "t", "squeeze", "unsqueeze", "expand", "_unsafe_view"}
)


@contextmanager
def clock_step(step: Step, spans: SpanRecorder) -> Iterator[None]:
    """Clock what a step consists of, inside: C++ calls and torch ops one by one, or programs, compiled pieces and graphs as wholes.

    Work of a device is clocked where the host waits for it.
    """
    with ExitStack() as stack:
        stack.enter_context(spans.clock(step.state, "apply", Part.PREPARE))
        stack.enter_context(spans.clock(step, "prepare", Part.PREPARE))
        stack.enter_context(step.forward.profiled(spans))
        stack.enter_context(spans.clock(step.sampler, "wish", Part.SAMPLE))
        stack.enter_context(spans.clock(step.sampler, "sample", Part.SAMPLE))
        stack.enter_context(_clock_library(spans))
        stack.enter_context(_OpClock(spans))
        yield


@contextmanager
def _clock_library(spans: SpanRecorder) -> Iterator[None]:
    """Clock calls of C++; those of a program, unless details are wanted, as one."""

    def tell(task: Task | None, start: float, end: float) -> None:
        if task is None:
            spans.add("program", Part.COMPILED, start, end)
        else:
            spans.add(type(task).__name__, _PARTS_OF_TASKS.get(type(task), Part.ROW_OPS), start, end)

    with clock(tell, splits_programs=spans.detail is Detail.OPS):
        yield


class _OpClock(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Clocks ops of torch, but for those inside of what is clocked as a whole."""

    def __init__(self, spans: SpanRecorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._spans = spans

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled in here; to say so, torch would import its compiler, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if self._spans.is_in_library:
            return func(*args, **given)
        start = time.perf_counter()
        result = func(*args, **given)
        end = time.perf_counter()
        name = str(func).rsplit(".", 2)[-2:][0]
        self._spans.add(name, _part_of_op(name), start, end)
        return result


def _part_of_op(name: str) -> Part:
    if name in _PRODUCTS:
        return Part.LINEAR
    return Part.OTHER_OPS if name in _MOVES | _VIEWS else Part.ROW_OPS
