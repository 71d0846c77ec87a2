import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from octavo.errors import EngineDeadError, RequestFailedError
from octavo_server.connections import CLOSE
from octavo_server.sse import DONE, KEEP_ALIVE, EventStream, EventWriter


def run(
    produce: Callable[[EventWriter], Any], *, keep_alive_s: float = 0, receive: Any = None, send: Any = None, scope: Any = None
) -> list[Any]:
    """What a stream sends; the client never hangs up unless `receive` says so."""
    sent: list[Any] = []

    async def connected() -> Any:
        await asyncio.Event().wait()

    async def keep(message: Any) -> None:
        sent.append(message)

    asyncio.run(asyncio.wait_for(EventStream(produce, keep_alive_s=keep_alive_s)(scope or {}, receive or connected, send or keep), 30))
    return sent


def test_the_head_comes_with_the_first_event_and_done_with_the_last() -> None:
    async def produce(events: EventWriter) -> bytes:
        assert not events.has_started
        await events.write(b"data: 1\n\n")
        assert events.has_started
        return b"data: 2\n\n"

    start, first, last = run(produce)
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert (first["body"], first["more_body"]) == (b"data: 1\n\n", True)
    assert (last["body"], last["more_body"]) == (b"data: 2\n\n" + DONE, False)


def test_a_stream_without_events_is_done_at_once() -> None:
    async def produce(events: EventWriter) -> bytes:
        return b""

    assert [message.get("body") for message in run(produce)] == [None, DONE]


def test_an_error_before_the_first_event_is_raised_and_nothing_is_sent() -> None:
    async def produce(events: EventWriter) -> bytes:
        raise EngineDeadError("gone")

    sent: list[Any] = []
    with pytest.raises(EngineDeadError):
        run(produce, send=sent.append)
    assert sent == []


@pytest.mark.parametrize(
    ("error", "told"), [(RequestFailedError("NaN"), b"NaN"), (EngineDeadError("gone"), b"gone"), (KeyError("secret"), b"log says why")]
)
def test_an_error_behind_it_is_an_event(error: Exception, told: bytes) -> None:
    async def produce(events: EventWriter) -> bytes:
        await events.write(b"data: 1\n\n")
        raise error

    last = run(produce)[-1]
    assert last["body"].startswith(b'data: {"error":{')
    assert told in last["body"]
    assert b"secret" not in last["body"]
    assert last["body"].endswith(b"\n\n" + DONE)
    assert last["more_body"] is False


@pytest.mark.parametrize("fails", [True, False])
def test_behind_an_error_the_connection_ends(fails: bool) -> None:
    calls: list[str] = []

    async def produce(events: EventWriter) -> bytes:
        await events.write(b"data: 1\n\n")
        if fails:
            raise RequestFailedError("NaN")
        return b""

    run(produce, scope={"extensions": {CLOSE: {"close": lambda: calls.append("close")}}})
    assert calls == ["close"] * fails


def test_comments_fill_silence_and_only_silence() -> None:
    comments = asyncio.Event()
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        if sent.count(KEEP_ALIVE) == 2:
            comments.set()

    async def produce(events: EventWriter) -> bytes:
        await comments.wait()
        return b"data: 1\n\n"

    run(produce, keep_alive_s=0.01, send=send)
    assert sent[:3] == [b"", KEEP_ALIVE, KEEP_ALIVE]
    assert sent[-1] == b"data: 1\n\n" + DONE


@pytest.mark.parametrize("gone", [ClientDisconnect, OSError])
def test_a_client_that_is_gone_ends_the_stream_quietly(gone: type[Exception]) -> None:
    async def send(message: Any) -> None:
        raise gone

    async def produce(events: EventWriter) -> bytes:
        await events.write(b"data: 1\n\n")
        raise AssertionError("nobody reads this")

    run(produce, send=send)


def test_hanging_up_cancels_what_is_produced() -> None:
    cancelled = []

    async def produce(events: EventWriter) -> bytes:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return b""

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    assert run(produce, receive=receive) == []
    assert cancelled == [True]


def test_parts_of_several_prompts_do_not_mix() -> None:
    async def send(message: Any) -> None:
        assert not busy
        busy.append(True)
        await asyncio.sleep(0)
        busy.clear()

    async def produce(events: EventWriter) -> bytes:
        await asyncio.gather(*(events.write(b"data: 1\n\n") for _ in range(9)))
        return b""

    busy: list[bool] = []
    run(produce, send=send)
