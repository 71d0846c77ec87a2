"""The one place where ops call the library, so that what they do can be listened to, and clocked."""

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from octavo_kernels.cpu.abi import Attention, Copy, Gate, Linear, RmsNorm, Rotation, check_status

Task = Attention | Rotation | RmsNorm | Gate | Linear | Copy
Listener = Callable[[Task], None]
ClockListener = Callable[[Task | None, float, float], None]
"""Gets what was done, None for a whole program, and when, in seconds of `time.perf_counter`."""


class Clock(NamedTuple):
    """Whom to tell how long calls take, and whether a program is to be made call by call for that."""

    tell: ClockListener
    splits_programs: bool


def _make(function: Callable[..., int], task: Task, operation: str) -> None:
    check_status(function(ctypes.byref(task)), operation)


_caller: ContextVar[Callable[[Callable[..., int], Task, str], None]] = ContextVar("octavo_kernels_caller", default=_make)
_clock: ContextVar[Clock | None] = ContextVar("octavo_kernels_clock", default=None)


def submit(function: Callable[..., int], task: Task, operation: str) -> None:
    """Carry out a task with a function of the library. Raises what its status stands for."""
    _caller.get()(function, task, operation)


def current_clock() -> Clock | None:
    """That of `clock`, in this thread."""
    return _clock.get()


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Tell of each task that this thread carries out inside."""
    call = _caller.get()

    def call_and_tell(function: Callable[..., int], task: Task, operation: str) -> None:
        call(function, task, operation)
        listener(task)

    token = _caller.set(call_and_tell)
    try:
        yield
    finally:
        _caller.reset(token)


@contextmanager
def clock(tell: ClockListener, *, splits_programs: bool) -> Iterator[None]:
    """Clock each task that this thread carries out inside, and each program: as a whole, or the calls that it consists of."""
    call = _caller.get()

    def call_and_clock(function: Callable[..., int], task: Task, operation: str) -> None:
        start = time.perf_counter()
        call(function, task, operation)
        tell(task, start, time.perf_counter())

    caller, clocked = _caller.set(call_and_clock), _clock.set(Clock(tell, splits_programs))
    try:
        yield
    finally:
        _clock.reset(clocked)
        _caller.reset(caller)
