"""From prompts in the engine to the HTTP response that carries their answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive

from octavo.errors import RequestFailedError
from octavo.output.token_delta import TokenDelta
from octavo.outputs import RequestOutput
from octavo.types import FinishReason
from octavo_server.disconnects import unless_disconnected
from octavo_server.in_flight import PromptsInFlight
from octavo_server.protocol.answer_writer import AnswerWriter
from octavo_server.protocol.event_encoder import EventEncoder
from octavo_server.protocol.generation_fields import GenerationFields, StreamOptions
from octavo_server.protocol.usage import Usage
from octavo_server.sse import OPENAI_EVENTS, EventForm, EventStream, EventWriter

CLIENT_CLOSED_REQUEST = 499
"""Status for the log; nobody is there to read it."""


class StreamEncoder(Protocol):
    """One dialect's events."""

    def events(self, place: int, deltas: list[TokenDelta], num_cached_tokens: int) -> bytes:
        """Events for what a prompt gained."""
        ...

    def closing_events(self, usage: Usage) -> bytes:
        """Events behind all others."""
        ...


async def answer(
    request: Request, prompts: PromptsInFlight, writer: AnswerWriter, fields: GenerationFields, *, keep_alive_s: float
) -> Response:
    """Run the prompts of a request and answer it, in one piece or token by token.

    Args:
        request: that asked.
        prompts: not queued yet.
        writer: of the dialect.
        fields: of the request.
        keep_alive_s: longest silence of a stream; 0: none is broken.

    Raises:
        RequestFailedError: a choice failed.
        EngineDeadError: the engine was lost.

    A stream raises them before its first token only; behind it they are events.
    """
    if not fields.stream:
        return await answer_whole(request.receive, prompts, writer.whole)
    options = fields.stream_options or StreamOptions()
    encoder = EventEncoder(
        writer,
        n=fields.num_choices,
        num_prompt_tokens=prompts.num_prompt_tokens,
        usage_in_each=bool(options.continuous_usage_stats),
        usage_at_end=bool(options.include_usage),
    )
    return answer_in_events(prompts, encoder, keep_alive_s=keep_alive_s)


def answer_in_events(
    prompts: PromptsInFlight, encoder: StreamEncoder, *, keep_alive_s: float, form: EventForm = OPENAI_EVENTS
) -> EventStream:
    """The answer token by token."""

    async def produce(events: EventWriter) -> bytes:
        with prompts:
            last = await _write_all(prompts, encoder, events)
        return last + encoder.closing_events(_usage(prompts))

    return EventStream(produce, keep_alive_s=keep_alive_s, form=form)


async def answer_whole(
    receive: Receive, prompts: PromptsInFlight, write: Callable[[Sequence[RequestOutput], Usage], msgspec.Struct]
) -> Response:
    """The answer in one piece. A client that goes away ends its requests."""

    async def collect() -> bytes:
        with prompts:
            outputs = await prompts.results()
        return msgspec.json.encode(write(outputs, _usage(prompts)))

    try:
        body = await unless_disconnected(receive, collect())
    except ClientDisconnect:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return Response(body, media_type="application/json")


async def _write_all(prompts: PromptsInFlight, encoder: StreamEncoder, events: EventWriter) -> bytes:
    """Write what all prompts gain as it comes; the very last of a single prompt is returned instead."""
    if len(prompts.requests) == 1:
        return await _write_one(0, prompts, encoder, events)

    async def write(place: int) -> None:
        await events.write(await _write_one(place, prompts, encoder, events))

    tasks = [asyncio.create_task(write(place)) for place in range(len(prompts.requests))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return b""


async def _write_one(place: int, prompts: PromptsInFlight, encoder: StreamEncoder, events: EventWriter) -> bytes:
    """Write what a prompt gains, all that came together in one piece, and return the last piece."""
    request = prompts.requests[place]
    while True:
        deltas = await prompts.changes(place)
        failed = next((number for number, delta in enumerate(deltas) if delta.finish_reason is FinishReason.ERROR), None)
        data = encoder.events(place, deltas[:failed], prompts.num_cached_tokens)
        if failed is not None:
            if data:
                await events.write(data)
            raise RequestFailedError(deltas[failed].error or "the engine failed on this request")
        if request.finished:
            return data
        await events.write(data)


def _usage(prompts: PromptsInFlight) -> Usage:
    return Usage.of(prompts.num_prompt_tokens, prompts.num_output_tokens, prompts.num_cached_tokens)
