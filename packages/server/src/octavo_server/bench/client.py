"""Sends one request and reads its answer."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from octavo_server.bench.address import Address
from octavo_server.bench.answer import StreamedAnswer
from octavo_server.bench.chunks import one_line, read_error
from octavo_server.bench.http_stream import ResponseStream
from octavo_server.bench.record import RequestError, RequestRecord


@dataclass(frozen=True)
class PreparedRequest:
    """A request ready to be sent.

    Attributes:
        body: JSON.
        num_input_tokens: of the prompt, as far as they can be told without the server.
    """

    body: bytes
    num_input_tokens: int


@dataclass
class LoadState:
    """The load under way, for whoever shows it. Counts of requests; `num_events` are events with output so far."""

    num_requests: int
    num_done: int = 0
    num_failed: int = 0
    num_running: int = 0
    peak_running: int = 0
    num_events: int = 0


class LoadClient:
    """Sends requests to one endpoint of a server, each on a connection of its own.

    Args:
        address: of the server.
        path: of the endpoint.
        headers: of every request.
        timeout_s: a request that takes longer is given up.
    """

    def __init__(self, address: Address, path: str, headers: Mapping[str, str], *, timeout_s: float) -> None:
        self._address = address
        self._path = path
        self._headers = headers
        self._timeout_s = timeout_s

    async def send(self, request: PreparedRequest, state: LoadState, *, start: float, due: float) -> RequestRecord:
        """Send a request now and read its answer to the end. What goes wrong is part of the record.

        Args:
            request: what to send.
            state: counts events.
            start: `time.perf_counter()` when the load began.
            due: seconds after `start` when this request should have been sent.
        """
        answer = StreamedAnswer()

        def take(piece: bytes, now: float) -> None:
            before = answer.num_events
            answer.feed(piece, now)
            state.num_events += answer.num_events - before

        head = self._address.head("POST", self._path, self._headers, length=len(request.body))
        sent = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_s):
                response, error = await self._address.exchange(head + request.body, take)
            error = error or _judge(response, answer)
        except TimeoutError:
            error = RequestError("timeout", f"no end after {self._timeout_s:g} s")
        except OSError as problem:
            error = RequestError("connection", one_line(str(problem) or type(problem).__name__))
        return _record(request, answer, error, start=start, due=due, sent=sent)


def _judge(response: ResponseStream, answer: StreamedAnswer) -> RequestError | None:
    """Why a response that is complete is no answer."""
    if response.status != 200:
        return RequestError(f"HTTP {response.status}", read_error(response.error_body))
    if answer.failure is None and not answer.is_complete:
        return RequestError("cut off", "the stream ended without a finish_reason or [DONE]")
    return answer.failure


def _record(
    request: PreparedRequest, answer: StreamedAnswer, error: RequestError | None, *, start: float, due: float, sent: float
) -> RequestRecord:
    usage = answer.usage
    has_usage = usage is not None and usage.prompt_tokens is not None and usage.completion_tokens is not None
    details = None if usage is None else usage.prompt_tokens_details
    return RequestRecord(
        due=due,
        sent=sent - start,
        ended=time.perf_counter() - start,
        input_tokens=usage.prompt_tokens or 0 if usage is not None and has_usage else request.num_input_tokens,
        output_tokens=usage.completion_tokens or 0 if usage is not None and has_usage else answer.num_events,
        cached_tokens=None if details is None else details.cached_tokens,
        has_usage=has_usage,
        num_events=answer.num_events,
        ttft_s=None if answer.first is None else answer.first - sent,
        e2e_s=None if answer.last is None else answer.last - sent,
        inter_token_s=answer.gaps,
        error=error,
    )
