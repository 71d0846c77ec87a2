"""Real worker processes with fake runners; what every executor has to do is in the conformance suite."""

import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octavo.config.engine import EngineConfig
from octavo.engine import workers
from octavo.engine.background import BackgroundEngine
from octavo.engine.build import build_loop, model_info
from octavo.engine.client import InProcessClient
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.engine.multiprocess import MultiprocessExecutor
from octavo.errors import EngineDeadError
from octavo.plugins.manager import load_plugins
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import StepPlan
from octavo.scheduler.policy import FirstComeFirstServed
from octavo.testing.config import fake_config
from octavo.testing.installed import write_plugin
from octavo.testing.model import continuation

DEADLINE_S = 20.0
RUNNERS = """
import os
import threading

import octavo
from octavo.testing.runner import FakeRunner


class Hanging(FakeRunner):
    def execute(self, plan):
        threading.Event().wait()


class Dying(FakeRunner):
    def execute(self, plan):
        os._exit(3)


class Stubborn(FakeRunner):
    def load(self):
        threading.Event().wait()


class Talking(FakeRunner):
    def execute(self, plan):
        print("a library says something")
        return super().execute(plan)


@octavo.hookimpl
def octavo_register_runners(registry):
    registry.register("fake", FakeRunner)
    for runner in (Hanging, Dying, Stubborn, Talking):
        registry.register(runner.__name__, runner)
"""

Make = Callable[..., MultiprocessExecutor]


class TwoRanks(MultiprocessExecutor):
    num_ranks = 2


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """`make(runner)`: an executor whose workers are gone after the test, whatever the test did."""
    module = write_plugin(tmp_path, "some-runners", RUNNERS)
    monkeypatch.syspath_prepend(tmp_path)
    registries = load_plugins(allow=("some-runners",)).registries
    made: list[MultiprocessExecutor] = []
    process_ids: list[int] = []

    def make_one(
        runner: str = "fake", kind: type[MultiprocessExecutor] = MultiprocessExecutor, config: EngineConfig | None = None
    ) -> MultiprocessExecutor:
        made.append(kind(config or fake_config(runner=runner), registries, ("some-runners",)))
        made[-1].prepare()
        process_ids.extend(made[-1].process_ids)
        return made[-1]

    yield make_one
    for executor in made:
        executor.shutdown()
    sys.modules.pop(module, None)
    assert [process_id for process_id in process_ids if Path(f"/proc/{process_id}").exists()] == []


def plan(step_id: int = 0) -> StepPlan:
    return StepPlan(step_id=step_id, removed=[], added=[], continued=[], num_tokens={}, num_output_tokens={})


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"after {DEADLINE_S:g} s still not: {what}"
        select.select([], [], [], 0.01)


def test_a_worker_that_is_killed_between_steps_ends_the_next_one(make: Make) -> None:
    executor = make()
    executor.start()
    executor.submit(plan()).result()
    os.kill(executor.process_ids[0], signal.SIGKILL)
    with pytest.raises(EngineDeadError, match=r"the worker of rank 0 \(process \d+\) was killed by SIGKILL"):
        executor.submit(plan(1)).result()


def test_a_worker_that_is_killed_in_a_step_ends_it_at_once(make: Make) -> None:
    executor = make("Hanging")
    executor.start()
    handle = executor.submit(plan())
    os.kill(executor.process_ids[0], signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(EngineDeadError, match="was killed by SIGKILL"):
        handle.result()
    assert time.monotonic() - start < 2.0


def test_a_worker_that_ends_by_itself_is_told_with_its_status(make: Make) -> None:
    executor = make("Dying")
    executor.start()
    with pytest.raises(EngineDeadError, match="ended with exit status 3"):
        executor.submit(plan()).result()


def test_a_frozen_worker_ends_the_step_after_a_while(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FROZEN_AFTER_S", 1.0)
    executor = make()
    executor.start()
    os.kill(executor.process_ids[0], signal.SIGSTOP)
    with pytest.raises(EngineDeadError, match="is frozen: it gave no sign of life for 1 s"):
        executor.submit(plan()).result()


def test_a_long_step_is_not_taken_for_a_frozen_worker(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FROZEN_AFTER_S", 2.0)
    executor = make("Hanging")
    executor.start()
    executor.submit(plan())
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        executor.check()
        select.select([], [], [], 0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_an_idle_engine_notices_a_lost_worker_when_it_looks(make: Make, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FROZEN_AFTER_S", 1.0)
    executor = make()
    executor.start()
    executor.check()
    os.kill(executor.process_ids[0], number)

    def is_lost() -> bool:
        try:
            executor.check()
        except EngineDeadError:
            return True
        return False

    until(is_lost, "lost")


def test_a_worker_killed_while_it_starts_ends_the_start(make: Make) -> None:
    executor = make("Stubborn")
    os.kill(executor.process_ids[0], signal.SIGKILL)
    with pytest.raises(EngineDeadError, match="was killed by SIGKILL"):
        executor.start()


def test_a_start_that_is_given_up_does_not_wait_for_the_worker(make: Make) -> None:
    executor = make("Stubborn")
    start = time.monotonic()
    executor.shutdown()
    assert time.monotonic() - start < 5.0


def test_what_a_worker_prints_stays_out_of_the_answers(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    executor = make("Talking")
    executor.start()
    executor.submit(plan()).result()
    executor.shutdown()
    out, err = capfd.readouterr()
    assert out == ""
    assert "a library says something" in err


def test_every_rank_gets_the_plan_and_the_first_one_answers(make: Make) -> None:
    executor = make(kind=TwoRanks)
    assert executor.start().num_blocks == 64
    assert len(set(executor.process_ids)) == 2
    assert executor.submit(plan()).result().step_id == 0
    os.kill(executor.process_ids[1], signal.SIGKILL)
    with pytest.raises(EngineDeadError, match="the worker of rank 1"):
        executor.submit(plan(1)).result()


def test_plans_larger_than_the_sockets_pass(make: Make) -> None:
    config = fake_config(num_blocks=8192, max_num_batched_tokens=100_000, max_model_len=100_000)
    executor = make(config=config)
    pool = executor.start()
    loop = build_loop(config, model_info(config, pool, executor.registries), executor, FirstComeFirstServed())
    prompt = [index % 1000 for index in range(90_000)]
    params = SamplingParams(temperature=0, max_tokens=1)
    loop.add(EngineRequest(request_id="long", token_ids=prompt, params=params, arrival_time=1.0, seed=0))
    (output,) = loop.step()
    assert output.new_token_ids == continuation(prompt, 1)


def test_the_way_there_and_back_is_clocked(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    executor = make()
    executor.start()
    for step_id in range(3):
        executor.submit(plan(step_id)).result()
    assert executor.num_steps == 3
    assert 0 < executor.overhead_s < 1
    with caplog.at_level(logging.INFO):
        executor.shutdown()
    assert "3 steps went to worker processes and back" in caplog.text


def test_an_idle_engine_in_the_background_dies_with_its_worker(make: Make) -> None:
    config = fake_config()
    executor = make(config=config)
    pool = executor.start()
    loop = build_loop(config, model_info(config, pool, executor.registries), executor, FirstComeFirstServed())
    deaths: list[EngineDeadError] = []
    died = threading.Event()

    def on_death(error: EngineDeadError) -> None:
        deaths.append(error)
        died.set()

    outputs: list[EngineOutput] = []
    engine = BackgroundEngine(InProcessClient(loop, executor), on_outputs=outputs.extend, on_death=on_death)
    try:
        engine.ping().result(DEADLINE_S)
        os.kill(executor.process_ids[0], signal.SIGKILL)
        while not died.wait(0.05):
            engine.ping().exception(DEADLINE_S)
        assert "was killed by SIGKILL" in str(deaths[0])
        with pytest.raises(EngineDeadError):
            engine.ping().result(DEADLINE_S)
    finally:
        engine.close()


def test_workers_do_not_outlive_an_engine_that_is_killed(tmp_path: Path) -> None:
    write_plugin(tmp_path, "some-runners", RUNNERS)
    source = f"""
import select, sys
sys.path.insert(0, {str(tmp_path)!r})
from octavo.engine.multiprocess import MultiprocessExecutor
from octavo.plugins.manager import load_plugins
from octavo.testing.config import fake_config
registries = load_plugins(allow=("some-runners",)).registries
executor = MultiprocessExecutor(fake_config(), registries, ("some-runners",))
executor.start()
print(executor.process_ids[0], flush=True)
select.select([], [], [])
"""
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        process.kill()
    status = Path(f"/proc/{worker}/stat")
    until(lambda: not status.exists() or " Z " in status.read_text(), "the worker is gone")
