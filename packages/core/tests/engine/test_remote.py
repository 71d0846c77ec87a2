"""A facade over a server of the same process: what it knows of the load, and that nothing is left behind."""

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from octavo import AsyncLLM, SamplingParams
from octavo.engine.client_messages import Stranger
from octavo.engine.load import EngineLoad
from octavo.engine.remote import SILENT_BEATS, RemoteEngine
from octavo.errors import EngineDeadError, InvalidRequestError
from octavo.frontend import Frontend
from octavo.scheduler.plan import StepPlan
from octavo.testing.llm import GREEDY

ENDLESS = SamplingParams(temperature=0, max_tokens=None, ignore_eos=True)
OPEN: list[AsyncLLM] = []
"""Of the test under way; a test that fails leaves no socket behind for a later one to stumble over."""


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def in_time() -> Any:
        try:
            return await asyncio.wait_for(main, 50)
        finally:
            while OPEN:
                await OPEN.pop().close()

    return asyncio.run(in_time())


async def facade(served: Any, client: int = 0) -> AsyncLLM:
    link = RemoteEngine(served.folder, client)
    ready = await link.ready()
    text = served.fake.llm.engine.text
    llm = AsyncLLM.__new__(AsyncLLM)
    llm._set_up(text, ready.info, Frontend(text, ready.info, seed=1, id_prefix=f"{client}-"), link.listen)
    OPEN.append(llm)
    return llm


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Three threads share one interpreter here, which wait for each other all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(interval)


def table_sizes(llm: AsyncLLM, served: Any) -> dict[str, int]:
    requests, server = llm._requests, served.server
    link: Any = requests.link
    return {
        "open": len(requests._open),
        "names": len(requests._names),
        "homes": len(requests._processor._homes),
        "questions": len(link._questions),
        "on the way": len(link._tracker._on_the_way),
        "owners": server.sessions.num_requests,
        "of the session": sum(len(session.request_ids) for session in server.sessions),
        "scheduler": len(served.fake.engine.scheduler._requests),
        "device": len(served.fake.engine.executor.device.request_ids),
        "mailbox": len(server._mailbox._calls),
    }


def test_twenty_thousand_requests_leave_nothing_behind(serve_here: Any, quick_switches: None) -> None:
    async def main() -> None:
        served = serve_here(step_s=0, num_blocks=2000, max_num_seqs=256, max_num_batched_tokens=2048)
        llm = await facade(served)
        before = table_sizes(llm, served)
        variants = [SamplingParams(temperature=0, max_tokens=2, stop=["4"], n=n, ignore_eos=True) for n in (1, 7)]

        async def one(index: int) -> None:
            with llm.open(llm._read([5 + index % 900]), variants[index % 2]) as request:
                if index % 7:
                    await request.result()

        for start in range(0, 5000, 500):
            served.fake.engine.executor.plans.clear()
            await asyncio.gather(*(one(index) for index in range(start, start + 500)))
        await llm.check_health()
        while served.fake.engine.loop.has_work():
            await llm.check_health()
        await llm.stats()
        assert table_sizes(llm, served) == before
        assert llm.load() == EngineLoad(running=0, waiting=0, waiting_tokens=0)
        assert (await llm.stats()).kv_usage == 0
        await llm.close()

    run(main())


def test_the_load_is_exact_for_one_client(serve_here: Any) -> None:
    may_step = threading.Event()

    def faults(plan: StepPlan) -> dict[str, str]:
        assert may_step.wait(30)
        return {}

    async def main() -> None:
        served = serve_here(max_num_seqs=2, num_blocks=5000, faults=faults)
        llm = await facade(served)
        requests = []
        for index in range(5):
            request = llm.open(llm._read([5] * (index + 1)), ENDLESS)
            request.__enter__()
            requests.append(request)
            load = llm.load()
            assert (load.running, load.waiting) == (min(index + 1, 2), max(0, index - 1))
            assert load.waiting_tokens == sum(range(3, index + 2))
        may_step.set()
        await requests[0].changes()
        assert llm.load() == EngineLoad(running=2, waiting=3, waiting_tokens=12)
        for request in requests[:4]:
            request.__exit__(None, None, None)
        await requests[4].changes()
        while llm.load().waiting:
            await requests[4].changes()
        assert llm.load() == EngineLoad(running=1, waiting=0, waiting_tokens=0)
        requests[4].__exit__(None, None, None)
        await llm.close()

    run(main())


def test_an_engine_that_goes_silent_behind_a_lost_session_is_not_waited_for(serve_here: Any) -> None:
    async def main() -> None:
        served = serve_here()
        llm = await facade(served)
        link: Any = llm._requests.link
        link._timer.cancel()
        link._hear(Stranger())
        assert llm.is_rejoining
        for reader in (link._socket, link._monitor):
            link._loop.remove_reader(reader.fileno())
        link._drain = lambda: None
        for _ in range(SILENT_BEATS):
            link._timer.cancel()
            link._tick()
        assert (llm.is_alive, llm.is_rejoining) == (False, False)
        await llm.close()

    run(main())


def test_what_is_read_after_closing_or_in_another_loop_is_refused(serve_here: Any) -> None:
    served = serve_here()
    loop = asyncio.new_event_loop()
    llm = loop.run_until_complete(facade(served))
    with pytest.raises(InvalidRequestError, match="another event loop"):
        asyncio.run(llm.generate([5], GREEDY))
    loop.run_until_complete(llm.close())
    loop.close()

    async def main() -> None:
        llm = await facade(served)
        await llm.close()
        await llm.close()
        for attempt in (llm.generate([5], GREEDY), llm.stats()):
            with pytest.raises(EngineDeadError, match="closed"):
                await attempt

    run(main())


def test_two_clients_get_each_their_own(serve_here: Any) -> None:
    async def main() -> None:
        served = serve_here(max_num_seqs=16, max_num_batched_tokens=256)
        first, second = await facade(served, 0), await facade(served, 1)
        done = await asyncio.gather(*(llm.generate([5 + index], GREEDY) for index in range(20) for llm in (first, second)))
        for one, other in zip(done[::2], done[1::2], strict=True):
            assert one.outputs == other.outputs
        await asyncio.gather(first.close(), second.close())

    run(main())


def test_an_engine_that_hears_nothing_ends_the_session_and_takes_the_client_again(serve_here: Any) -> None:
    async def main() -> None:
        served = serve_here(silent_beats=3)
        llm = await facade(served)
        link: Any = llm._requests.link
        link._timer.cancel()
        task = asyncio.create_task(llm.generate([5], ENDLESS))
        while len(served.server.sessions):
            await asyncio.sleep(0.01)
        link._tick()
        with pytest.raises(EngineDeadError, match="ended this session"):
            await task
        assert (llm.is_alive, llm.is_rejoining, llm.engine_process_id) == (False, True, os.getpid())
        while not llm.is_alive:
            await asyncio.sleep(0.01)
        assert not llm.is_rejoining
        assert (await llm.generate([5], GREEDY)).finished
        await llm.close()

    run(main())
