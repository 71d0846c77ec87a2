"""How much an engine has to do, and what of it a client can know without asking."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from octavo.engine.messages import EngineRequest


@dataclass(frozen=True, kw_only=True)
class EngineLoad:
    """What an engine carries.

    Attributes:
        running: requests that run.
        waiting: requests that have to wait.
        waiting_tokens: tokens of their prompts.
    """

    running: int
    waiting: int
    waiting_tokens: int


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says of itself behind a step.

    Attributes:
        running: requests that hold blocks.
        waiting: requests that hold none.
        waiting_tokens: tokens of their prompts.
        free_places: so many more may run at once; 0 where memory or the token budget made requests wait in the last step.
        received: requests that came from this client till now.
    """

    running: int = 0
    waiting: int = 0
    waiting_tokens: int = 0
    free_places: int = 0
    received: int = 0


@dataclass(frozen=True, kw_only=True)
class LoadReports:
    """What an engine says of itself behind a step, to each of its clients.

    Attributes:
        report: to a client that sent nothing.
        received: requests that came, by client.
    """

    report: LoadReport = field(default_factory=LoadReport)
    received: Mapping[int, int] = field(default_factory=dict)

    def of(self, client: int) -> LoadReport:
        """The report to one client."""
        return msgspec.structs.replace(self.report, received=self.received.get(client, 0))


class LoadTracker:
    """A client's view of the load: the last report, and its own requests that the report does not know yet."""

    def __init__(self) -> None:
        self._report = LoadReport()
        self._sent = 0
        self._on_the_way: deque[int] = deque()

    def sent(self, requests: Sequence[EngineRequest]) -> None:
        """Note requests that were handed to the engine."""
        self._sent += len(requests)
        self._on_the_way.extend(len(request.token_ids) for request in requests)

    def reported(self, report: LoadReport) -> None:
        """Take in a report; what the engine has received is in it."""
        self._report = report
        while self._on_the_way and self._sent - len(self._on_the_way) < report.received:
            self._on_the_way.popleft()

    def load(self) -> EngineLoad:
        """The sum of both: first those that wait, then those on their way take the free places."""
        report, num_new = self._report, len(self._on_the_way)
        placed = min(report.free_places, report.waiting + num_new)
        waiting = report.waiting + num_new - placed
        num_placed_new = max(0, placed - report.waiting)
        tokens = report.waiting_tokens if placed < report.waiting else 0
        tokens += sum(size for place, size in enumerate(self._on_the_way) if place >= num_placed_new)
        return EngineLoad(running=report.running + placed, waiting=waiting, waiting_tokens=tokens if waiting else 0)
