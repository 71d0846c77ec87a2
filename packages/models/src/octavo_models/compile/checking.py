"""Graphs on a CPU that replay nothing: they do the work again, and find what a graph of a GPU would silently get wrong.

A GPU replays launches, not Python. So work must touch the same memory in the same way each time: an input that moved, a number that
the host read, a shape or a branch that followed the data, a tensor made of a list, memory that nobody keeps, all break it. And what
lies in the pool of the graphs is lost when another graph is replayed: here it is filled with NaN.
"""

import weakref
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from octavo_models.compile.graphs import GraphBackend, GraphError, GraphHandle
from octavo_models.compile.watch import Call, Watch


class CheckingGraphs(GraphBackend):
    """Checks what it captures and each replay of it. Compiled pieces are not looked into: capture them as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self._pool: list[weakref.ref[Tensor]] = []
        self.num_replays = 0

    def _capture(self, work: Callable[[], object], inputs: Sequence[Tensor], name: str) -> GraphHandle:
        self.watch(work, inputs, name)  # as a warm-up does: what it makes and keeps is outside of the pool
        return _CheckingHandle(self, work, inputs, name)

    def watch(self, work: Callable[[], object], inputs: Sequence[Tensor], name: str) -> list[Call]:
        """Do some work; what it made before is lost. Returns the calls. Raises `GraphError`."""
        self._lose_pool()
        watch = Watch(inputs, name)
        with watch:
            work()
        self._pool = [weakref.ref(tensor) for tensor in watch.made_and_alive()]
        return watch.calls

    def _lose_pool(self) -> None:
        with torch.inference_mode():
            for reference in self._pool:
                tensor = reference()
                if tensor is not None:
                    tensor.fill_(float("nan") if tensor.is_floating_point() else -1)
        self._pool = []


class _CheckingHandle(GraphHandle):
    def __init__(self, graphs: CheckingGraphs, work: Callable[[], object], inputs: Sequence[Tensor], name: str) -> None:
        self._graphs = graphs
        self._work = work
        self._inputs = tuple(inputs)
        self._name = name
        self._places = [tensor.data_ptr() for tensor in self._inputs]
        self._calls = graphs.watch(work, self._inputs, name)

    def replay(self) -> None:
        for number, (tensor, place) in enumerate(zip(self._inputs, self._places, strict=True)):
            if tensor.data_ptr() != place:
                raise GraphError(f"{self._name}: input {number}, {_describe(tensor)}, has moved since it was captured")
        self._graphs.num_replays += 1
        calls = self._graphs.watch(self._work, self._inputs, self._name)
        for number, (captured, now) in enumerate(zip(self._calls, calls, strict=False)):
            if captured != now:
                raise GraphError(f"{self._name}: call {number} was {captured} when it was captured, and is {now} now")
        if len(calls) != len(self._calls):
            raise GraphError(f"{self._name}: {len(self._calls)} calls were captured, and {len(calls)} are made now")


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
