"""Graphs: device work that is recorded once and replayed without the host's part in it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from torch import Tensor

Step = TypeVar("Step")


class GraphError(Exception):
    """Work that cannot be captured, or a replay that would not do what the work would: a bug in what was captured."""


class GraphHandle(ABC):
    """Captured work."""

    @abstractmethod
    def replay(self) -> None:
        """Do it again, on what its inputs hold now."""


class GraphBackend(ABC):
    """Captures work. All of one backend share one pool of memory: what lies in it is lost when another graph is replayed, so results are
    written to tensors that are inputs."""

    def __init__(self) -> None:
        self._is_sealed = False

    def capture(self, work: Callable[[], object], inputs: Sequence[Tensor], name: str) -> GraphHandle:
        """Run some work, to warm it up, and record it.

        Args:
            work: reads and writes nothing but `inputs` and what it makes itself; returns nothing that is read.
            inputs: everything else that it touches, weights included; they stay where they are for as long as the handle is used.
            name: for messages.

        Raises:
            GraphError: the work cannot be replayed.
        """
        assert not self._is_sealed, f"graph {name!r} is captured after start-up"
        return self._capture(work, inputs, name)

    def seal(self) -> None:
        """Refuse captures from now on: they take seconds and memory that nobody planned for."""
        self._is_sealed = True

    @abstractmethod
    def _capture(self, work: Callable[[], object], inputs: Sequence[Tensor], name: str) -> GraphHandle:
        """As `capture`."""


class Plan(Generic[Step]):
    """What a step does, in order: graphs, and calls between them that see the step.

    Args:
        backend: of the graphs.
        name: of the plan, for messages.
    """

    def __init__(self, backend: GraphBackend, name: str) -> None:
        self._backend = backend
        self._name = name
        self._entries: list[Callable[[Step], object]] = []
        self._num_graphs = 0

    def piece(self, work: Callable[[], object], inputs: Sequence[Tensor]) -> None:
        """Capture some work as the next entry."""
        handle = self._backend.capture(work, inputs, f"{self._name}, piece {self._num_graphs}")
        self._num_graphs += 1
        self._entries.append(lambda _: handle.replay())

    def eager(self, call: Callable[[Step], object], step: Step) -> None:
        """Note a call as the next entry, and make it for the step of the capture."""
        call(step)
        self._entries.append(call)

    def replay(self, step: Step) -> None:
        """Run all entries for a step."""
        for entry in self._entries:
            entry(step)
