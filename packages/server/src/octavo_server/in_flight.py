"""Prompts on their way through the engine, and what becomes of them."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from octavo import SamplingParams
from octavo.errors import EngineDeadError, RequestFailedError
from octavo.input.prompts import TokenizedPrompt
from octavo.output.open_request import OpenRequest
from octavo.output.token_delta import TokenDelta
from octavo.outputs import RequestOutput
from octavo.types import FinishReason
from octavo_server.admission import admit
from octavo_server.calls import Call
from octavo_server.metrics.observation import RequestObservation

_GRAVEST_FIRST = (FinishReason.ERROR, FinishReason.ABORT, FinishReason.LENGTH, FinishReason.STOP)


class PromptsInFlight:
    """The prompts of a call, which are continued side by side. A context manager: what has not finished behind its block is aborted.

    Nothing is queued before the block. What is wrong with a request is refused by the constructor; a full queue, by entering.

    Args:
        call: that wants them.
        prompts: at least one.
        params: of all of them.
        observations: one a prompt.
        priority, cache_salt: as for `AsyncLLM.open`.

    Raises:
        InvalidRequestError: a prompt or the parameters cannot be.

    Attributes:
        requests: one a prompt.
        num_output_tokens: that were handed out so far.
    """

    def __init__(
        self,
        call: Call,
        prompts: list[TokenizedPrompt],
        params: SamplingParams,
        observations: list[RequestObservation],
        *,
        priority: int = 0,
        cache_salt: str | None = None,
    ) -> None:
        self.requests: list[OpenRequest] = [
            call.llm.open(prompt, params, request_id=call.request_id, priority=priority, cache_salt=cache_salt, tenant=call.tenant)
            for prompt in prompts
        ]
        self.num_prompt_tokens = sum(len(prompt.token_ids) for prompt in prompts)
        self.num_output_tokens = 0
        self._state = call.state
        self._params = params
        self._observations = observations
        self._reasons: list[set[FinishReason]] = [set() for _ in prompts]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Queue them. Raises `ApiError` 503 where there is no room, and `EngineDeadError`."""
        admit(self._state, len(self.requests) * self._params.n, self.num_prompt_tokens)
        with ExitStack() as stack:
            for request, observation in zip(self.requests, self._observations, strict=True):
                stack.enter_context(observation)
                stack.enter_context(request)
                observation.queued(len(request.prompt_token_ids), self._params)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def num_cached_tokens(self) -> int:
        """Tokens of the prompts that came from the prefix cache, as far as is known."""
        return sum(request.num_cached_tokens for request in self.requests)

    async def changes(self, place: int) -> list[TokenDelta]:
        """What a prompt gained, as `OpenRequest.changes`. Raises `ApiError` 503 where the engine was lost, or the server ends."""
        request, observation = self.requests[place], self._observations[place]
        try:
            deltas = await request.changes()
        except EngineDeadError as error:
            raise self._state.loss_of_request(error) from error
        if len(deltas) == 1 and deltas[0].finish_reason is None:
            # By far the most frequent case.
            observation.tokens(1, deltas[0].index)
            self.num_output_tokens += 1
            return deltas
        counts: dict[int, int] = {}
        for delta in deltas:
            if delta.token_id is not None:
                counts[delta.index] = counts.get(delta.index, 0) + 1
            if delta.finish_reason is not None:
                self._reasons[place].add(delta.finish_reason)
        for index, count in counts.items():
            observation.tokens(count, index)
            self.num_output_tokens += count
        if request.finished:
            self._note_end(place)
        return deltas

    async def results(self) -> list[RequestOutput]:
        """Everything, when all of it is finished. Raises `RequestFailedError` where a choice failed, and `ApiError` as `changes`."""
        outputs = [await self._result(place) for place in range(len(self.requests))]
        for request in self.requests:
            if request.error is not None:
                raise RequestFailedError(request.error, outputs=outputs)
        return outputs

    async def _result(self, place: int) -> RequestOutput:
        try:
            output = await self.requests[place].result()
        except EngineDeadError as error:
            raise self._state.loss_of_request(error) from error
        for completion in output.outputs:
            if completion.token_ids:
                self._observations[place].tokens(len(completion.token_ids), completion.index)
                self.num_output_tokens += len(completion.token_ids)
            if completion.finish_reason is not None:
                self._reasons[place].add(completion.finish_reason)
        self._note_end(place)
        return output

    def _note_end(self, place: int) -> None:
        request, reasons = self.requests[place], self._reasons[place]
        gravest = next(reason for reason in _GRAVEST_FIRST if reason in reasons)
        self._observations[place].finished(gravest, request.times, request.num_cached_tokens)
