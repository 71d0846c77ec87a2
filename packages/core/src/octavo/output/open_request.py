"""One prompt on its way through the engine, as its reader in an event loop sees it."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from octavo.engine.messages import RequestTimes
from octavo.errors import EngineDeadError
from octavo.output.group import RequestGroup
from octavo.output.token_delta import TokenDelta
from octavo.outputs import Logprob, RequestOutput

if TYPE_CHECKING:
    from octavo.output.open_requests import OpenRequests


class OpenRequest:
    """A prompt that was checked. As a context manager it is queued on entry, and what has not finished behind the block is aborted.

    One task reads it, by `changes` or by `result`. A reader that is slower than the engine loses nothing: what came while it did not
    look is there when it looks next.

    Args:
        group: that grows.
        name: of the request, for its outputs and for aborting it.
        requests: of the event loop.

    Attributes:
        name: as given.
        finished: every continuation ended and the engine has said how; nothing more will come.
    """

    def __init__(self, group: RequestGroup, *, name: str, requests: "OpenRequests") -> None:
        self.group = group
        self.name = name
        self.finished = False
        self._requests = requests
        self._death: EngineDeadError | None = None
        self._wakes_for_each = True
        self._waiter: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        self.group.deltas = []
        self._requests.enter(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._requests.leave(self)

    @property
    def prompt_token_ids(self) -> list[int]:
        """Tokens of the prompt; not to be changed."""
        return self.group.requests[0].token_ids

    @property
    def num_cached_tokens(self) -> int:
        """Prompt tokens taken from the prefix cache; right once the first changes came."""
        return self.group.num_cached_tokens

    @property
    def prompt_logprobs(self) -> list[dict[int, Logprob] | None] | None:
        """For each token of the prompt, None for the first; complete once the first changes came, None where none were asked for."""
        return self.group.prompt_logprobs

    @property
    def times(self) -> RequestTimes | None:
        """Of the first continuation; set when the request is finished."""
        return self.group.times

    @property
    def error(self) -> str | None:
        """Why the first continuation that failed did so."""
        return self.group.error

    async def changes(self) -> list[TokenDelta]:
        """All that came since the last call, in order; waits until there is something. Behind the end: [] at once.

        The last delta of a request comes when the engine has confirmed the end.

        Raises:
            EngineDeadError: the engine was lost; what came before has been returned.
        """
        group = self.group
        assert group.deltas is not None, "a request is read inside its block"
        while True:
            if group.deltas and (self.finished or not group.finished):
                deltas, group.deltas = group.deltas, []
                return deltas
            if self.finished:
                return []
            await self._woken()

    async def result(self) -> RequestOutput:
        """Wait for the end and return all of it. Raises `EngineDeadError` where the engine was lost."""
        self._wakes_for_each = False
        self.group.deltas = None
        while not self.finished:
            await self._woken()
        return self.output()

    def output(self) -> RequestOutput:
        """What there is of it now; later steps do not change it."""
        return self.group.output(self.name)

    def note_change(self) -> None:
        """The group gained something, and will gain more."""
        if self._wakes_for_each:
            self._wake()

    def note_end(self) -> None:
        """The group has all that it will get."""
        self.finished = True
        self._wake()

    def note_death(self, error: EngineDeadError) -> None:
        """The engine cannot go on."""
        self._death = self._death or error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _woken(self) -> None:
        """Wait for the next note; the dead leave no more of them."""
        if self._death is not None:
            raise EngineDeadError(str(self._death)) from self._death
        assert self._waiter is None, "one task reads a request"
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
