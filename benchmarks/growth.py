"""How times grow: `uv run --no-sync python benchmarks/growth.py`, in under five minutes on two cores.

- a decode step against the number of requests, and against their context, on a model that is installed;
- steps of a tiny model against the number of running requests, which are hardly more than what the engine itself adds to a step; and
  what is left of them without compiled code and tensor ops;
- start-up by phase, which comes first, while nothing is loaded yet.

Figures go to benchmarks/results/growth.json, pictures to docs/performance/. `--quick` shows in seconds that it all works, and writes to
a temporary folder unless it is told where.
"""

import argparse
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octavo.llm import LLM

ROOT = Path(__file__).parents[1]
PROMPT_LEN = 16
NUM_STEPS, NUM_WARM_UP_STEPS, NUM_OVERHEAD_ROUNDS = 12, 3, 3
SEED = 5
TINY_VOCABULARY, TINY_CONTEXT = 512, 512


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How far it goes."""

    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    contexts: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096, 8192)
    running: tuple[int, ...] = (1, 4, 16, 64, 256, 512, 1024)


QUICK = Scale(batches=(1, 2), contexts=(64, 128), running=(1, 8))


def main() -> None:
    """Measure, print, and write figures and pictures."""
    arguments = parse_arguments()
    scale = QUICK if arguments.quick else Scale()
    startup, llm = start_up(arguments.model, scale)
    with llm:
        config = llm.engine.config
        results: dict[str, Any] = {
            "model": config.load.files.name,
            "dtype": config.load.dtype,
            "decisions": {decision.name: decision.value for decision in llm.engine.decisions},
            "startup_s": startup,
            "batch": [{"requests": count, **step_times(llm, count, PROMPT_LEN)} for count in printed("batch", scale.batches)],
            "context": [{"context": length, **context_times(llm, length)} for length in printed("context", scale.contexts)],
        }
    results["overhead"] = overheads(scale.running)
    write(results, arguments)


def parse_arguments() -> argparse.Namespace:
    """Folders are temporary in a quick run that names none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="name, folder or file; default: the model that is installed")
    parser.add_argument("--quick", action="store_true", help="tiny settings: a check that it works")
    parser.add_argument("--results", type=Path, help="folder for the figures")
    parser.add_argument("--plots", type=Path, help="folder for the pictures")
    arguments = parser.parse_args()
    trial = Path(tempfile.mkdtemp(prefix="growth-")) if arguments.quick else None
    arguments.results = arguments.results or trial or ROOT / "benchmarks" / "results"
    arguments.plots = arguments.plots or trial or ROOT / "docs" / "performance"
    return arguments


def start_up(model: str | None, scale: Scale) -> tuple[dict[str, float], "LLM"]:
    """Seconds of each phase, of all until the model is ready (some run beside each other), and then to a first token; and the model."""
    start = time.perf_counter()
    from octavo.llm import LLM
    from octavo.sampling_params import SamplingParams

    phases = {"import of octavo": time.perf_counter() - start}
    limits: dict[str, Any] = {"max_num_seqs": max(scale.batches), "max_num_batched_tokens": 2048, "seed": SEED}
    with logged_phases(phases):
        llm = LLM(model, **limits)
    ready = time.perf_counter() - start
    first = time.perf_counter()
    llm.generate([1, 2, 3], SamplingParams(max_tokens=1, temperature=0), use_tqdm=False)
    phases |= {"ready": ready, "first token": time.perf_counter() - first}
    for name, seconds in phases.items():
        print(f"start-up: {name:32} {seconds:8.2f} s", flush=True)
    return phases, llm


@contextmanager
def logged_phases(phases: dict[str, float]) -> Iterator[None]:
    """Note the phases of start-up that the engine logs."""
    logger = logging.getLogger("octavo")

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if isinstance(record.msg, str) and record.msg.startswith("start-up:") and isinstance(record.args, tuple):
                name, seconds = record.args
                assert isinstance(seconds, float)
                phases[str(name)] = seconds

    listener, level, propagates = Listener(), logger.level, logger.propagate
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
        logger.propagate = propagates
    assert len(phases) > 2, "the engine logged no phase of its start-up"


def printed(name: str, values: tuple[int, ...]) -> Iterator[int]:
    """The values, each said when its turn comes."""
    for value in values:
        print(f"{name} {value:,}", flush=True)
        yield value


def context_times(llm: "LLM", context: int) -> dict[str, float]:
    """`step_times` of one request whose context ends at a length. Prompts begin alike, so that each computes what it is longer by."""
    return step_times(llm, 1, context - NUM_STEPS - NUM_WARM_UP_STEPS - 1)


def step_times(llm: "LLM", count: int, prompt_len: int) -> dict[str, float]:
    """Median wall time and mean processor time of a decode step of requests, in ms."""
    with decoding(llm, count, prompt_len):
        wall, processor = [], time.process_time()
        for _ in range(NUM_STEPS):
            start = time.perf_counter()
            outputs = llm.engine.client.step()
            wall.append(time.perf_counter() - start)
            assert len(outputs) == count, "a request paused"
        processor = time.process_time() - processor
    return {"wall_ms": statistics.median(wall) * 1e3, "processor_ms": processor / NUM_STEPS * 1e3}


@contextmanager
def decoding(llm: "LLM", count: int, prompt_len: int) -> Iterator[None]:
    """Requests that have read their prompts and taken some steps, and go on generating."""
    from octavo.cli.workload import fixed_length, random_prompts
    from octavo.frontend import Frontend
    from octavo.input.prompts import TokenizedPrompt

    client = llm.engine.client
    prompts = random_prompts(count, prompt_len, vocab_size=llm.engine.info.vocab_size, seed=SEED)
    tokenized = [TokenizedPrompt(text=None, token_ids=prompt) for prompt in prompts]
    params = fixed_length(llm.engine.info.max_model_len - prompt_len)
    groups = Frontend.of(llm.engine).prepare(tokenized, [params] * count, [0] * count, numbered=True)
    requests = [request for group in groups for request in group.requests]
    client.add(requests)
    try:
        waiting = {request.request_id for request in requests}
        while waiting:
            waiting -= {output.request_id for output in client.step()}
        for _ in range(NUM_WARM_UP_STEPS):
            client.step()
        yield
    finally:
        client.abort(request.request_id for request in requests)


def overheads(counts: tuple[int, ...]) -> list[dict[str, float]]:
    """Decode steps of a tiny model, in ms, the shortest of some rounds, and what the engine itself adds to them."""
    from octavo.llm import LLM
    from octavo_models.testing import write_tiny_llama

    with tempfile.TemporaryDirectory() as name:
        folder = write_tiny_llama(Path(name) / "tiny", vocab_size=TINY_VOCABULARY, max_position_embeddings=TINY_CONTEXT)
        limits: dict[str, Any] = {"max_num_seqs": max(counts), "num_blocks": 8 * max(counts) + 64}
        with LLM(str(folder), dtype="float32", max_num_batched_tokens=8192, seed=SEED, **limits) as llm:
            return [{"requests": count, **overhead(llm, count)} for count in printed("running", counts)]


def overhead(llm: "LLM", count: int) -> dict[str, float]:
    """A step as it is, and what of it lies outside of compiled code and tensor ops; their clocks run in steps of their own."""
    from octavo.profile.spans import Detail
    from octavo.profile.steps import StepProfile

    client, plain, library = llm.engine.client, [], []
    with decoding(llm, count, PROMPT_LEN):
        for _ in range(NUM_OVERHEAD_ROUNDS):
            start = time.perf_counter()
            for _ in range(NUM_STEPS):
                client.step()
            plain.append(time.perf_counter() - start)
            profile = StepProfile(Detail.CALLS)
            with client.profiled(profile):
                for _ in range(NUM_STEPS):
                    client.step()
            library.append(profile.spans.library_s)
    step_ms, library_ms = (min(seconds) / NUM_STEPS * 1e3 for seconds in (plain, library))
    return {"step_ms": step_ms, "overhead_ms": step_ms - library_ms}


def write(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write figures and pictures, and say where."""
    from growth_plots import plot_growth, plot_start_up

    arguments.results.mkdir(parents=True, exist_ok=True)
    arguments.plots.mkdir(parents=True, exist_ok=True)
    figures = arguments.results / "growth.json"
    figures.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    growth, startup = arguments.plots / "growth.svg", arguments.plots / "start-up.svg"
    growth.write_text(plot_growth(results), encoding="utf-8")
    startup.write_text(plot_start_up(results), encoding="utf-8")
    print(f"written: {figures}, {growth}, {startup}")


if __name__ == "__main__":
    main()
