"""In which order requests are served, and therefore who gives way."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.request import Request


class SchedulerPolicy(ABC):
    """A pure order: requests with smaller keys run first, the one with the largest key is preempted first.

    The key of a request must not change while it is in the engine, and `arrival` must be its last part, so that no two are equal.
    """

    @abstractmethod
    def key(self, request: "Request") -> tuple[int, ...]:
        """Sort key of a request."""


class FirstComeFirstServed(SchedulerPolicy):
    """By arrival."""

    def key(self, request: "Request") -> tuple[int, ...]:
        return (request.arrival,)


class Priority(SchedulerPolicy):
    """By priority (lower first), then by arrival."""

    def key(self, request: "Request") -> tuple[int, ...]:
        return (request.priority, request.arrival)
