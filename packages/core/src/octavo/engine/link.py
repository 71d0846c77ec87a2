"""What stands between an event loop and an engine, wherever the engine runs."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from octavo.engine.load import EngineLoad
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import EngineDeadError
from octavo.metrics.stats import EngineStats

OnOutputs: TypeAlias = Callable[[list[EngineOutput]], None]
"""Hears what requests gained, in the event loop's thread."""

OnDeath: TypeAlias = Callable[[EngineDeadError], None]
"""Hears, in the event loop's thread, that all requests under way are lost."""


class EngineLink(ABC):
    """Sends requests and questions to an engine. Used in the event loop's thread; nothing that is not awaited ever waits."""

    @property
    @abstractmethod
    def death(self) -> EngineDeadError | None:
        """Why the engine takes no requests at this moment; None while it does."""

    @property
    def process_id(self) -> int | None:
        """Of the process in which the engine is, or was when it was lost; None where that is this one."""
        return None

    @property
    def is_rejoining(self) -> bool:
        """Whether the engine lives, and only the connection to it has to be made anew: it forgot a client that was not heard for long."""
        return False

    @abstractmethod
    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver in this loop from now on. Raises `InvalidRequestError` where that cannot be."""

    @abstractmethod
    def add(self, requests: Sequence[EngineRequest]) -> None:
        """Queue the requests of one prompt, all or none; what the engine refuses ends with an output that says why.

        Raises `EngineDeadError` where the engine is dead or closed, and `InvalidRequestError` for what cannot be sent.
        """

    @abstractmethod
    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests without another output; unknown ids and a dead engine are fine."""

    @abstractmethod
    def finish(self, request_id: str, num_output_tokens: int) -> None:
        """End a request whose text met a stop string; its last output comes as all others do, none for unknown ids."""

    @abstractmethod
    def load(self) -> EngineLoad:
        """What the engine carries, as far as this process knows, its own requests on their way included."""

    @abstractmethod
    def reset_prefix_cache(self) -> Awaitable[bool]:
        """Forget every cached prefix; False where requests hold blocks. Raises `EngineDeadError`."""

    @abstractmethod
    def stats(self) -> Awaitable[EngineStats]:
        """Counters and load between two steps. Raises `EngineDeadError`."""

    @abstractmethod
    def ping(self) -> Awaitable[None]:
        """Answered between two steps. Raises `EngineDeadError`."""

    @abstractmethod
    async def close(self) -> None:
        """Give the engine up; calling it twice is fine. An engine in this process ends, one in another is left to its owner."""
