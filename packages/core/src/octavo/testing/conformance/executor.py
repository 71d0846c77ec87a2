"""What holds for every executor, whichever runner it carries plans to and wherever that is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from octavo.config.engine import EngineConfig
from octavo.engine.build import build_loop, model_info
from octavo.engine.executor import Executor
from octavo.engine.inprocess import InProcessExecutor
from octavo.engine.loop import EngineLoop
from octavo.engine.messages import EngineRequest
from octavo.errors import CheckpointError, ConfigurationError, EngineDeadError
from octavo.logprobs import LogprobRows
from octavo.plugins.manager import LoadedPlugins, load_plugins
from octavo.plugins.registries import Registries
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import StepPlan
from octavo.scheduler.policy import FirstComeFirstServed
from octavo.testing import faulty_runners
from octavo.testing.config import fake_config
from octavo.testing.conformance.faults import bare_faults
from octavo.testing.installed import write_plugin

MakeExecutor = Callable[[EngineConfig, Registries, tuple[str, ...]], Executor]
"""The class of an executor."""

_PLUGIN = "conformance-runners"
_SOURCE = """
import octavo

@octavo.hookimpl
def octavo_register_runners(registry):
    registry.register("fake", "octavo.testing.runner:FakeRunner")
    for name in ("Decided", "Damaged", "TooLarge", "Breaking"):
        registry.register(name, f"octavo.testing.faulty_runners:{name}Runner")
"""
_PROMPTS = (30, 28, 1, 25, 31, 16)
_NUM_OUTPUT = 20
_MOST_STEPS = 500


@dataclass(frozen=True)
class ExecutorCase:
    """One thing that an executor has to do."""

    name: str
    check: Callable[["_Bench"], None]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Bench:
    """Makes the executor under test, and others to compare it with."""

    make: MakeExecutor
    loaded: LoadedPlugins

    def executor(self, config: EngineConfig, make: MakeExecutor | None = None) -> Executor:
        return (make or self.make)(config, self.loaded.registries, tuple(plugin.name for plugin in self.loaded.plugins))


@dataclass
class _Gained:
    """What a request got."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[LogprobRows] = field(default_factory=list)
    prompt_logprobs: LogprobRows | None = None


def check_executor(make_executor: MakeExecutor, case: ExecutorCase, folder: Path) -> None:
    """Hold an executor to a case, with fake runners. Raises AssertionError with what is wrong.

    Args:
        make_executor: the executor's class.
        case: of `EXECUTOR_CASES`.
        folder: an empty one, for the plugin that brings the runners; it is on `sys.path` meanwhile.
    """
    with _runners_installed(folder) as loaded:
        case.check(_Bench(make_executor, loaded))


@contextmanager
def _runners_installed(folder: Path) -> Iterator[LoadedPlugins]:
    module = write_plugin(folder, _PLUGIN, _SOURCE)
    sys.path.insert(0, str(folder))
    try:
        yield load_plugins(allow=(_PLUGIN,))
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(module, None)


def _check_crowd(bench: _Bench) -> None:
    """Requests that come, are preempted and go get what they get in process."""
    config = fake_config(num_blocks=9, max_num_seqs=4)
    expected = _serve(bench.executor(config, InProcessExecutor), config)
    gained = _serve(bench.executor(config), config)
    for request_id, right in expected.items():
        assert gained[request_id] == right, f"{request_id} got {gained[request_id]}, and in process {right}"


def _serve(executor: Executor, config: EngineConfig) -> dict[str, _Gained]:
    gained = {f"request-{index}": _Gained() for index in range(len(_PROMPTS))}
    with _started(executor, config) as loop:
        for index, (request_id, length) in enumerate(zip(gained, _PROMPTS, strict=True)):
            loop.add(_request(request_id, [5 + index] * length, logprobs=index if index < 3 else None))
        for _ in range(_MOST_STEPS):
            if not loop.has_work():
                break
            executor.check()
            with bare_faults():
                outputs = loop.step()
            for output in outputs:
                assert output.error is None, f"{output.request_id} failed: {output.error}"
                one = gained[output.request_id]
                one.token_ids += output.new_token_ids
                one.logprobs += [output.logprobs] if output.logprobs is not None else []
                one.prompt_logprobs = output.prompt_logprobs or one.prompt_logprobs
        assert not loop.has_work(), f"requests are still there after {_MOST_STEPS} steps"
    return gained


def _request(request_id: str, prompt: list[int], logprobs: int | None = None) -> EngineRequest:
    params = SamplingParams(temperature=0, max_tokens=_NUM_OUTPUT, ignore_eos=True, logprobs=logprobs, prompt_logprobs=logprobs)
    return EngineRequest(request_id=request_id, token_ids=prompt, params=params, arrival_time=1.0, seed=0)


@contextmanager
def _started(executor: Executor, config: EngineConfig) -> Iterator[EngineLoop]:
    """A loop above an executor, which is shut down twice behind it."""
    try:
        executor.prepare()
        pool = executor.start()
        assert pool.num_blocks == config.cache.num_blocks, f"the runner's pool has {config.cache.num_blocks} blocks, and {pool} was told"
        yield build_loop(config, model_info(config, pool, executor.registries), executor, FirstComeFirstServed())
    finally:
        executor.shutdown()
        executor.shutdown()


def _check_empty_plan(bench: _Bench) -> None:
    """A plan of zero tokens comes back, and `start` does what `prepare` would have done."""
    executor = bench.executor(fake_config())
    try:
        executor.start()
        plan = StepPlan(step_id=0, removed=[], added=[], continued=[], num_tokens={}, num_output_tokens={})
        handle = executor.submit(plan)
        result = handle.result()
    finally:
        executor.shutdown()
    assert (result.step_id, result.token_ids) == (0, {}), f"a plan without tokens gave {result}"
    assert handle.result() == result, "a result can be asked for again"


def _check_decisions(bench: _Bench) -> None:
    executor = bench.executor(fake_config(runner="Decided"))
    try:
        executor.start()
    finally:
        executor.shutdown()
    told = executor.decisions
    assert told == (faulty_runners.DECISION,), f"the runner decided {faulty_runners.DECISION}, and the executor says {told}"


def _check_failed_start(bench: _Bench, runner: str, kind: type[Exception], message: str) -> None:
    """What keeps a runner from starting arrives as the same class with the same line."""
    executor = bench.executor(fake_config(runner=runner))
    try:
        error = _caught(executor.prepare) or _caught(executor.start)
    finally:
        executor.shutdown()
        executor.shutdown()
    assert type(error) is kind, f"a runner that raises {kind.__name__} gave {type(error).__name__}: {error}"
    assert message in str(error), f"a runner that says {message!r} gave {error}"
    assert "\n" not in str(error), "the message has several lines"


def _caught(action: Callable[[], object]) -> Exception | None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever comes is held against what should
        return error
    return None


def _check_lost_step(bench: _Bench) -> None:
    """A runner that raises ends the engine with a message that says what it raised."""
    config = fake_config(runner="Breaking")
    with _started(bench.executor(config), config) as loop:
        loop.add(_request("request", [5, 6, 7]))
        error = _caught(lambda: [loop.step() for _ in range(faulty_runners.LAST_SOUND_STEP + 2)])
    assert isinstance(error, EngineDeadError), f"a runner that raises in a step did not end the engine, but gave {error!r}"
    assert faulty_runners.OUT_OF_ORDER in str(error), f"the runner said {faulty_runners.OUT_OF_ORDER!r}, and the engine {error}"


def _check_no_start(bench: _Bench) -> None:
    """Shutting down what was never started is fine, prepared or not."""
    bench.executor(fake_config()).shutdown()
    executor = bench.executor(fake_config())
    executor.prepare()
    executor.prepare()
    executor.shutdown()
    executor.shutdown()


EXECUTOR_CASES: tuple[ExecutorCase, ...] = (
    ExecutorCase("serves a crowd", _check_crowd),
    ExecutorCase("a plan without tokens", _check_empty_plan),
    ExecutorCase("tells decisions", _check_decisions),
    ExecutorCase("damaged files", lambda bench: _check_failed_start(bench, "Damaged", CheckpointError, faulty_runners.DAMAGED)),
    ExecutorCase("no room", lambda bench: _check_failed_start(bench, "TooLarge", ConfigurationError, faulty_runners.TOO_LARGE)),
    ExecutorCase("unknown runner", lambda bench: _check_failed_start(bench, "ghost", ConfigurationError, "unknown runner 'ghost'")),
    ExecutorCase("a lost step", _check_lost_step),
    ExecutorCase("shut down before the start", _check_no_start),
)
