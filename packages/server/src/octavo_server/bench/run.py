"""Runs a benchmark: find the server, warm it up, put load on it, count."""

import asyncio
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from octavo_server.bench.arrivals import arrival_offsets
from octavo_server.bench.client import LoadClient, LoadState, PreparedRequest
from octavo_server.bench.config import ENDPOINTS, BenchmarkConfig
from octavo_server.bench.errors import BenchmarkError
from octavo_server.bench.limit import ConcurrencyLimit
from octavo_server.bench.load import LoadGenerator, LoadOutcome
from octavo_server.bench.payload import prepare
from octavo_server.bench.prompt import Prompt
from octavo_server.bench.result import BenchmarkResult, summarize
from octavo_server.bench.target import Target, reach
from octavo_server.bench.workload import TokenSource, make_prompts, make_warm_up

_DEFAULT_VOCAB_SIZE = 10_000
_PROGRESS_EVERY_S = 0.5
_REFUSALS = {"HTTP 400", "HTTP 422"}

OnProgress = Callable[[LoadState], None]


def run_benchmark(config: BenchmarkConfig, *, on_progress: OnProgress | None = None, stop_on_interrupt: bool = False) -> BenchmarkResult:
    """Run one benchmark in an event loop of its own; see `benchmark`."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(benchmark(config, on_progress=on_progress, stop_on_interrupt=stop_on_interrupt))


async def benchmark(
    config: BenchmarkConfig,
    *,
    on_progress: OnProgress | None = None,
    stop: asyncio.Event | None = None,
    stop_on_interrupt: bool = False,
) -> BenchmarkResult:
    """Run one benchmark in the running event loop.

    Args:
        config: what to do.
        on_progress: called about twice a second while the load runs, and once at its end.
        stop: when it is set, requests under way are given up, and what there is becomes the result (its `unfinished` is above 0).
        stop_on_interrupt: Ctrl-C does the same once the load runs; the next one interrupts. Only in the main thread.

    Raises:
        BenchmarkError: the server cannot be reached, or every request failed.
        ConfigurationError: the workload cannot be made.
    """
    address, target = await reach(config)
    client = LoadClient(address, ENDPOINTS[config.endpoint], config.headers, timeout_s=config.timeout_s)
    tokens, notes = await _choose_tokens(client, config, target)
    prompts = make_prompts(config.workload, tokens, seed=config.seed)
    requests = [prepare(config, target.model, prompt) for prompt in prompts]
    await _warm_up(client, config, target, prompts[0])
    stop = stop or asyncio.Event()
    state = LoadState(len(requests))
    with _gc_frozen(), _interrupts_set(stop) if stop_on_interrupt else nullcontext():
        outcome = await _load(client, config, requests, state, stop, on_progress)
    _refuse_total_failure(outcome)
    workload = replace(config.workload, num_prompts=len(requests))
    return summarize(replace(config, workload=workload), target.model, outcome, notes=notes)


async def _load(
    client: LoadClient,
    config: BenchmarkConfig,
    requests: list[PreparedRequest],
    state: LoadState,
    stop: asyncio.Event,
    on_progress: OnProgress | None,
) -> LoadOutcome:
    """The part that is measured."""
    offsets = arrival_offsets(
        len(requests),
        rate=config.request_rate,
        arrival=config.arrival,
        burstiness=config.burstiness,
        ramp_up_s=config.ramp_up_s,
        seed=config.seed,
    )
    reporting = asyncio.ensure_future(_report(state, on_progress))
    try:
        with ConcurrencyLimit(config.max_concurrency, ramp_up_s=config.ramp_up_s) as limit:
            return await LoadGenerator(client, limit, state).run(requests, offsets, stop=stop)
    finally:
        reporting.cancel()
        if on_progress is not None:
            on_progress(state)


async def _choose_tokens(client: LoadClient, config: BenchmarkConfig, target: Target) -> tuple[TokenSource, tuple[str, ...]]:
    """What random prompts are made of, with a note where the server does not take token ids."""
    words, ids = TokenSource(None), _ids(config, target)
    if config.endpoint == "chat" or config.prompt_form == "text":
        return words, ()
    if config.prompt_form == "ids" or config.workload.dataset is not None:
        return ids, ()
    (prompt,) = make_warm_up(config.workload, ids, count=1, seed=config.seed - 1)
    outcome = await _send_together(client, config, target, [replace(prompt, output_len=1)])
    error = outcome.records[0].error
    if error is None or error.kind not in _REFUSALS:
        return ids, ()
    return words, (f"the server does not take these token ids ({error.kind}: {error.message}): prompts are text",)


def _ids(config: BenchmarkConfig, target: Target) -> TokenSource:
    return TokenSource(config.vocab_size or target.vocab_size or _DEFAULT_VOCAB_SIZE)


async def _warm_up(client: LoadClient, config: BenchmarkConfig, target: Target, like: Prompt) -> None:
    """Send prompts of the same form as one of the workload, and raise where all fail."""
    tokens = TokenSource(None) if isinstance(like.content, str) else _ids(config, target)
    prompts = make_warm_up(config.workload, tokens, count=config.num_warm_ups, seed=config.seed)
    _refuse_total_failure(await _send_together(client, config, target, prompts))


async def _send_together(client: LoadClient, config: BenchmarkConfig, target: Target, prompts: list[Prompt]) -> LoadOutcome:
    """Send some requests at once, as far as the limit allows, beside the measurement."""
    requests = [prepare(config, target.model, prompt) for prompt in prompts]
    with ConcurrencyLimit(config.max_concurrency) as limit:
        return await LoadGenerator(client, limit, LoadState(len(requests))).run(requests, [0.0] * len(requests))


def _refuse_total_failure(outcome: LoadOutcome) -> None:
    """Raise where there were requests and none succeeded."""
    errors = [record.error for record in outcome.records]
    if not errors or None in errors:
        return
    first = errors[0]
    assert first is not None
    raise BenchmarkError(f"every request failed ({len(errors):,}), the first with {first.kind}: {first.message}")


async def _report(state: LoadState, on_progress: OnProgress | None) -> None:
    while on_progress is not None:
        on_progress(state)
        await asyncio.sleep(_PROGRESS_EVERY_S)


@contextmanager
def _gc_frozen() -> Iterator[None]:
    """Let the garbage collector look at nothing that was there before, so that it does not halt the clock for long."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _interrupts_set(stop: asyncio.Event) -> Iterator[None]:
    """The first Ctrl-C sets the event, the next is as ever."""
    loop = asyncio.get_running_loop()
    assert threading.current_thread() is threading.main_thread(), "signals are handled in the main thread"

    def interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; None: the standard library's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
