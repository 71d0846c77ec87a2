import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from octavo_server.disconnects import unless_disconnected


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, 30))


async def never() -> Any:
    await asyncio.Event().wait()


async def hung_up() -> Any:
    return {"type": "http.disconnect"}


async def done() -> int:
    return 5


async def fails() -> None:
    raise KeyError("x")


def test_work_that_is_done_first_counts() -> None:
    assert run(unless_disconnected(never, done())) == 5
    with pytest.raises(KeyError):
        run(unless_disconnected(never, fails()))


def test_a_client_that_goes_away_cancels_the_work() -> None:
    ended = []

    async def work() -> None:
        try:
            await never()
        finally:
            ended.append(True)

    with pytest.raises(ClientDisconnect):
        run(unless_disconnected(hung_up, work()))
    assert ended == [True]


def test_a_cancelled_server_leaves_no_task_behind() -> None:
    async def main() -> None:
        task = asyncio.create_task(unless_disconnected(never, never()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
