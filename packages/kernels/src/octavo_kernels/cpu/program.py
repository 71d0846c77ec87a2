"""Programs of C++ calls: what a step does is noted down once and done again, for other rows, in one call from Python.

A step must consist of ops of this package, views, copies and new tensors [N, ...] whose content nothing else reads. Its inputs and
outputs must lie at the same place in every step, for N up to a largest number; the tensors between them are given such places here.
"""

import ctypes
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from octavo_kernels.cpu.abi import KINDS, Attention, Call, Copy, Linear, Program, Requests, check_status
from octavo_kernels.cpu.attend import AttendPlan
from octavo_kernels.cpu.calls import Clock, Task, current_clock, listen

FEWEST_TOKENS = 2
"""Rows of a step that is noted down: of one row alone, strides mean nothing."""

_EMPTY = frozenset({torch.ops.aten.empty.memory_format, torch.ops.aten.new_empty.default, torch.ops.aten.empty_like.default})


class CpuProgram:
    """Calls that can be made for any number of tokens up to the largest.

    Args:
        library: from `load_library`.
        calls: tasks with their rows a token and, of those that attend, their group of requests.
        kept: whatever has to stay where it is.
        result: of the calls, for the largest number of tokens; None where they give nothing but what they write to places.
    """

    def __init__(self, library: ctypes.CDLL, calls: Sequence[tuple[Task, int, int]], kept: object, result: Tensor | None = None) -> None:
        self._library = library
        self._result = result
        self._kept = (list(calls), kept)
        entries = (Call(ctypes.addressof(task), KINDS[type(task)], rows, group) for task, rows, group in calls)
        self._calls = (Call * len(calls))(*entries)

    def __len__(self) -> int:
        return len(self._calls)

    def run(self, num_tokens: int, plans: Sequence[AttendPlan] = ()) -> Tensor | None:
        """Make all calls for N tokens, with the plan of each group of requests. Raises what the ops raise.

        Returns:
            What they give, [N, ...], until they are made again.
        """
        groups = (Requests * len(plans))(*map(_requests, plans))
        program = Program(ctypes.addressof(self._calls), ctypes.addressof(groups), len(self._calls), num_tokens)
        clock = current_clock()
        if clock is not None:
            self._run_clocked(program, clock)
        else:
            check_status(self._library.octavo_run(ctypes.byref(program)), "a step")
        return None if self._result is None else self._result[:num_tokens]

    def _run_clocked(self, program: Program, clock: Clock) -> None:
        tasks, run = self._kept[0], self._library.octavo_run
        if not clock.splits_programs:
            start = time.perf_counter()
            check_status(run(ctypes.byref(program)), "a step")
            clock.tell(None, start, time.perf_counter())
            return
        program.num_calls = 1
        for task, _, _ in tasks:
            start = time.perf_counter()
            check_status(run(ctypes.byref(program)), "a step")
            clock.tell(task, start, time.perf_counter())
            program.calls += ctypes.sizeof(Call)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes down what is done while it is entered; all of it is done as ever.

    Args:
        num_tokens: N, at least `FEWEST_TOKENS`.
        max_tokens: rows that all memory is made for.
        plans: of the groups of requests, as they are attended with.

    Attributes:
        obstacle: what cannot be noted down, so that there is no program; None where all can.
    """

    def __init__(self, *, num_tokens: int, max_tokens: int, plans: Iterable[AttendPlan]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        assert FEWEST_TOKENS <= num_tokens <= max_tokens
        self.obstacle: str | None = None
        self._num_tokens = num_tokens
        self._max_tokens = max_tokens
        self._groups = {plan.slots.data_ptr(): group for group, plan in enumerate(plans)}
        self._calls: list[tuple[Task, int, int]] = []
        self._memory: dict[tuple[tuple[int, ...], torch.dtype], list[Tensor]] = {}
        self._taken: dict[tuple[tuple[int, ...], torch.dtype], int] = {}
        self._result: Tensor | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled in here; to say so, torch would import its compiler, which takes seconds."""
        return False

    def next_piece(self) -> None:
        """What was made so far is read by nothing that follows, but for what was copied to its place."""
        self._taken.clear()

    def note_result(self, made: Tensor) -> None:
        """Take down what all of it gives: a tensor [N, ...] that a call made."""
        places = (place for group in self._memory.values() for place in group if place.data_ptr() == made.data_ptr())
        place = next(places, None)
        if place is None or len(made) != self._num_tokens or not made.is_contiguous() or made[0].numel() != place[0].numel():
            self._fail("a result that no call made")
            return
        self._result = place.view(len(place), *made.shape[1:])

    def program(self, library: ctypes.CDLL) -> CpuProgram:
        """What was noted down."""
        assert self.obstacle is None, self.obstacle
        return CpuProgram(library, self._calls, self._memory, self._result)

    def note(self, task: Task) -> None:
        """Take down a call of an op."""
        if isinstance(task, Linear) and task.largest is not None:
            self._fail("an argmax")
            return
        if isinstance(task, Attention) and task.slots not in self._groups:
            self._fail("attention with another plan than the step's")
            return
        rows, rest = divmod(task.num_rows, self._num_tokens)
        if rest:
            self._fail(f"{type(task).__name__} of {task.num_rows} rows")
            return
        self._calls.append((task, rows, self._groups[task.slots] if isinstance(task, Attention) else 0))

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.obstacle is not None or _is_view(func):
            return result
        if func is torch.ops.aten.copy_.default:
            self._note_copy(args[0], args[1])
        elif func in _EMPTY and result.shape[:1] == (self._num_tokens,) and result.is_contiguous():
            return self._place(tuple(result.shape[1:]), result.dtype)
        else:
            self._fail(str(func))
        return result

    def _place(self, row: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """[N, *row], the first rows of one that has the largest number."""
        key = (row, dtype)
        places, taken = self._memory.setdefault(key, []), self._taken.get(key, 0)
        if taken == len(places):
            places.append(torch.empty(self._max_tokens, *row, dtype=dtype))
        self._taken[key] = taken + 1
        return places[taken][: self._num_tokens]

    def _note_copy(self, target: Tensor, source: Tensor) -> None:
        if source.shape != target.shape or source.dtype != target.dtype or source.shape[:1] != (self._num_tokens,):
            self._fail("a copy that changes shape or type")
            return
        if not (source[0].is_contiguous() and target[0].is_contiguous()):
            self._fail("a copy of rows with gaps")
            return
        size = source.element_size()
        strides = source.stride(0) * size, target.stride(0) * size
        row_bytes = source[0].numel() * size
        self.note(Copy(source.data_ptr(), target.data_ptr(), *strides, row_bytes, self._num_tokens, torch.get_num_threads()))

    def _fail(self, what: str) -> None:
        self.obstacle = self.obstacle or what


@contextmanager
def record(*, num_tokens: int, max_tokens: int, plans: Sequence[AttendPlan]) -> Iterator[Recorder]:
    """Note down what is done inside; arguments as of `Recorder`."""
    recorder = Recorder(num_tokens=num_tokens, max_tokens=max_tokens, plans=plans)
    with listen(recorder.note), recorder:
        yield recorder


def _requests(plan: AttendPlan) -> Requests:
    return Requests(
        plan.slots.data_ptr(),
        plan.query_start.data_ptr(),
        plan.seq_lens.data_ptr(),
        plan.block_table.data_ptr(),
        plan.block_table.shape[1],
        plan.runs.data_ptr(),
        plan.members.data_ptr(),
        plan.num_runs,
        plan.seq_lens.shape[0],
    )


def _is_view(func: Any) -> bool:
    """Whether what an op returns is memory of its argument, and nothing is computed."""
    returns = func._schema.returns
    return bool(returns) and all(value.alias_info is not None and not value.alias_info.is_write for value in returns)
