"""Engines in real processes: what they give, how they fail, and that nothing outlives its owner."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from octavo import AsyncLLM, SamplingParams
from octavo.engine.build import build_engine
from octavo.engine.folder import private_folder
from octavo.engine.process import EngineProcess
from octavo.errors import CheckpointError, ConfigurationError, EngineDeadError
from octavo.outputs import RequestOutput
from octavo.testing.llm import GREEDY
from octavo.testing.model import continuation

STOP = f"x{continuation([5], 3)[2]}"
ENDLESS = SamplingParams(temperature=0, max_tokens=None, ignore_eos=True)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def in_time() -> Any:
        return await asyncio.wait_for(main, 50)

    return asyncio.run(in_time())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def running(llm: AsyncLLM, params: SamplingParams = ENDLESS) -> "asyncio.Task[RequestOutput]":
    """A request that has begun."""
    task = asyncio.create_task(llm.generate([5], params))
    await until(lambda: task.done() or llm.load().running > 0)
    return task


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return True


@dataclass(frozen=True)
class Shared:
    """An engine for tests that leave it as it was."""

    site: Any
    process: EngineProcess

    async def connect(self) -> AsyncLLM:
        llm: AsyncLLM = await self.site.connect(self.process)
        return llm


@pytest.fixture(scope="module")
def shared(site: Any) -> Iterator[Shared]:
    with private_folder() as folder:
        own = replace(site, folder=folder)
        with own.process() as process:
            process.wait_ready(30)
            yield Shared(own, process)
            assert process.terminate(10) == 0
            assert list(folder.glob("*.sock")) == []


REQUESTS = [
    ([5, 6, 7], SamplingParams(temperature=0, max_tokens=9)),
    ("hello there", SamplingParams(temperature=1, seed=3, max_tokens=20, logprobs=3, n=3)),
    ([9] * 40, SamplingParams(temperature=0, max_tokens=5, prompt_logprobs=2, logprobs=0)),
    ([5], SamplingParams(temperature=0, max_tokens=50, ignore_eos=True, stop=[STOP])),
    ([5, 6], SamplingParams(temperature=0.7, seed=2**63 - 1, max_tokens=30, min_tokens=5, stop_token_ids=[7, 8, 9], logit_bias={5: 1.5})),
    ([8, 9], SamplingParams(max_tokens=0, prompt_logprobs=1)),
    ([5] * 3000, SamplingParams(temperature=1, seed=1, n=2, max_tokens=3, prompt_logprobs=1, detokenize=False)),
    ([{"role": "user", "content": "hello"}], SamplingParams(temperature=0, max_tokens=4, bad_words=["there"], allowed_token_ids=[3, 4, 5])),
]


def comparable(output: RequestOutput) -> RequestOutput:
    output.request_id, output.metrics, output.num_cached_tokens = "", None, 0
    return output


def test_an_engine_in_a_process_gives_what_one_in_a_thread_gives(shared: Shared) -> None:
    async def all_of(llm: AsyncLLM) -> list[RequestOutput]:
        async with llm:
            await llm.check_health()
            outputs = await asyncio.gather(*(llm.generate(prompt, params) for prompt, params in REQUESTS))
            stats = await llm.stats()
            assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)
            assert await llm.reset_prefix_cache()
            return [comparable(output) for output in outputs]

    async def main() -> None:
        remote = await all_of(await shared.connect())
        here = await all_of(AsyncLLM.from_engine(build_engine(shared.site.options(), plugins_allow=("served",))))
        assert remote == here
        assert remote[3].outputs[0].stop_reason == STOP

    run(main())


def test_an_engine_that_is_killed_ends_its_requests_at_once_and_a_new_one_takes_over(site: Any) -> None:
    async def main() -> None:
        with site.process() as process:
            llm = await site.connect(process)
            task = await running(llm)
            asked = asyncio.ensure_future(llm.stats())
            os.kill(process.pid, signal.SIGKILL)
            start = time.monotonic()
            with pytest.raises(EngineDeadError, match="process has gone"):
                await task
            assert time.monotonic() - start < 2
            await asyncio.gather(asked, return_exceptions=True)
            assert not llm.is_alive
            for attempt in (llm.generate([5], GREEDY), llm.check_health(), llm.stats()):
                with pytest.raises(EngineDeadError):
                    await attempt
            await asyncio.to_thread(process.kill)
            assert process.poll() == -signal.SIGKILL
        with site.process() as process:
            await until(lambda: llm.is_alive)
            assert llm.death is None
            assert (await llm.generate([5], GREEDY)).finished
            assert llm.load().running == 0
            await llm.close()

    run(main())


def test_an_engine_that_is_stopped_is_dead_until_it_goes_on(shared: Shared) -> None:
    async def main() -> None:
        llm = await shared.connect()
        task = await running(llm)
        os.kill(shared.process.pid, signal.SIGSTOP)
        try:
            start = time.monotonic()
            with pytest.raises(EngineDeadError, match="silent for 4 s"):
                await task
            assert 3 < time.monotonic() - start < 6
            assert not llm.is_alive
        finally:
            os.kill(shared.process.pid, signal.SIGCONT)
        await until(lambda: llm.is_alive)
        assert (await llm.generate([5], GREEDY)).finished
        assert (await llm.stats()).running == 0
        await llm.close()

    run(main())


def test_a_step_that_fails_is_the_end_of_the_process(site: Any) -> None:
    async def main() -> None:
        with site.process(runner="failing") as process:
            llm = await site.connect(process, runner="failing")
            with pytest.raises(EngineDeadError, match="the device is gone"):
                await llm.generate([5], ENDLESS)
            await until(lambda: process.poll() is not None)
            assert process.poll() == 1
            await llm.close()

    run(main())


@pytest.mark.parametrize(
    ("flags", "kind", "message"),
    [
        ({"runner": "damaged"}, CheckpointError, "shard 2 of 3 is missing"),
        ({"max_model_len": -3}, ConfigurationError, "max_model_len"),
    ],
)
def test_what_a_start_fails_with_arrives_as_the_same_error(site: Any, flags: dict[str, Any], kind: type[Exception], message: str) -> None:
    async def main() -> None:
        with site.process(**flags) as process:
            with pytest.raises(kind, match=message) as heard:
                await site.connect(process, **flags)
            with pytest.raises(kind, match=message) as said:
                process.wait_ready(20)
            assert str(heard.value) == str(said.value)
            assert "\n" not in str(said.value)
            await until(lambda: process.poll() is not None)
            assert process.poll() == 1

    run(main())


def test_a_process_that_ends_while_it_loads_is_not_waited_for(site: Any) -> None:
    async def main() -> None:
        with site.process(runner="hanging") as process:
            connecting = asyncio.create_task(site.connect(process, runner="hanging"))
            with pytest.raises(EngineDeadError, match="not been ready"):
                await asyncio.to_thread(process.wait_ready, 0.01)
            await until((site.folder / "engine-0.sock").exists)
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(EngineDeadError, match="was killed by SIGKILL"):
                await connecting

    run(main())


def test_a_process_that_loads_ends_when_asked(site: Any) -> None:
    with site.process(runner="hanging") as process:
        while not (site.folder / "engine-0.sock").exists():
            assert process.poll() is None
        assert process.terminate(10) in {0, -signal.SIGTERM}


def test_an_engine_ends_with_its_parent(site: Any) -> None:
    script = (
        "import sys; from pathlib import Path; from octavo import EngineOptions; from octavo.engine.process import EngineProcess\n"
        f"process = EngineProcess.start(EngineOptions(model={str(site.model)!r}, runner='fake', num_blocks=50), "
        f"folder=Path({str(site.folder)!r}), plugins_allow=('served',), log_level='error')\n"
        "process.wait_ready(30); print(process.pid, flush=True); sys.stdin.read()"
    )
    installed = next(path for path in sys.path if path.endswith("site") and "served" in path)
    parent = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {installed!r})\n{script}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not is_gone(pid)
        parent.kill()
    ends_at = time.monotonic() + 10
    while not is_gone(pid):
        assert time.monotonic() < ends_at


def test_ctrl_c_is_the_parents_business(shared: Shared) -> None:
    async def main() -> None:
        llm = await shared.connect()
        os.kill(shared.process.pid, signal.SIGINT)
        assert (await llm.generate([5], GREEDY)).finished
        await llm.close()

    run(main())


def test_it_works_in_uvloop_too(shared: Shared) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        llm = await shared.connect()
        done = await asyncio.gather(*(llm.generate([5 + index], GREEDY) for index in range(300)))
        assert all(output.finished for output in done)
        task = await running(llm)
        await llm.close()
        with pytest.raises(EngineDeadError, match="closed"):
            await task

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(main(), 50))


def test_the_files_of_an_engine_are_private(shared: Shared) -> None:
    assert shared.site.folder.stat().st_mode & 0o077 == 0
    for path in shared.site.folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0
