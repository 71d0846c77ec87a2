"""The engine from scheduler to sampler, padded and replayed under the checking backend: the tokens of eager mode."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from octavo.config.cache import CacheConfig
from octavo.config.compile import CompileConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.scheduler.plan import StepPlan
from octavo.testing.conformance import RUNNER_CASES, RunnerCase, check_runner
from octavo_models.compile.dispatch import BatchFacts, Dispatcher, GraphKey, GraphMode
from octavo_models.runner.runner import TorchModelRunner
from octavo_models.testing.dense import tiny_engine_config
from octavo_models.testing.gemma3 import write_tiny_gemma3

EAGER = CompileConfig(enforce_eager=True)
CHECKING = CompileConfig(graph_backend="checking")
PIECEWISE = replace(CHECKING, level=1)
CACHE = CacheConfig(block_size=8, dtype="float32", num_blocks=16, memory_bytes=None, memory_utilization=None, enable_prefix_caching=True)
SCHEDULER = SchedulerConfig(max_num_seqs=5, max_num_batched_tokens=12)


def traffic(engine: Any, *, longest: int = 60) -> dict[str, list[int]]:
    """Prompts in chunks beside decodes, more requests than the pool holds, a shared prefix, three of one prompt, and draws."""
    shared = [7, 8, 9, 10, 11, 12, 13, 14] * 2
    engine.add("first", [*shared, 20], max_tokens=longest)
    for _ in range(4):
        engine.step()
    engine.add("second", [*shared, 30, 31])
    engine.add("long", list(range(60, 100)), max_tokens=longest)
    engine.add("draws", [40, 41, 42], temperature=1.0, seed=3, max_tokens=40)
    for index in range(3):
        engine.add(f"one of three {index}", [50] * 9, leader="one of three 0" if index else None, temperature=0.8, seed=index)
    engine.add("prompt", [70, 71, 72, 73], prompt_logprobs=1, logprobs=1)
    return dict(engine.run())


@pytest.fixture
def dispatched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[BatchFacts, GraphKey | None]]:
    """What was decided for each batch."""
    seen: list[tuple[BatchFacts, GraphKey | None]] = []
    original = Dispatcher.key

    def key(self: Dispatcher, batch: BatchFacts) -> GraphKey | None:
        chosen = original(self, batch)
        seen.append((batch, chosen))
        return chosen

    monkeypatch.setattr(Dispatcher, "key", key)
    return seen


@pytest.mark.parametrize(
    ("attention", "compile_config", "modes"),
    [
        ("cpu", CHECKING, {GraphMode.FULL, GraphMode.PIECEWISE}),
        ("cpu", PIECEWISE, {GraphMode.PIECEWISE}),
        ("sdpa", CHECKING, {GraphMode.PIECEWISE}),
    ],
)
def test_replayed_steps_give_the_tokens_of_eager_ones(
    make_engine: Callable[..., Any],
    dispatched: list[tuple[BatchFacts, GraphKey | None]],
    attention: str,
    compile_config: CompileConfig,
    modes: set[GraphMode],
) -> None:
    fields = {"attention_backend": attention, "cache": CACHE, "scheduler": SCHEDULER}
    eager, checked = make_engine(EAGER, **fields), make_engine(compile_config, **fields)
    wanted = traffic(eager)
    assert traffic(checked) == wanted
    assert {key.mode for _, key in dispatched if key is not None} == modes
    assert any(key is not None and key.num_rows > batch.num_tokens for batch, key in dispatched), "something was padded"
    assert checked.num_cached["second"] > 0
    assert checked.loop.stats().counters.preemptions > 0


def test_layers_of_several_kinds_and_windows_are_replayed(make_engine: Callable[..., Any], tmp_path: Path) -> None:
    gemma = write_tiny_gemma3(tmp_path / "gemma", vocab_size=320, seed=1)
    fields = {"model": gemma, "attention_backend": "cpu", "cache": replace(CACHE, num_blocks=60), "scheduler": SCHEDULER}
    assert traffic(make_engine(CHECKING, **fields), longest=16) == traffic(make_engine(EAGER, **fields), longest=16)


def test_nothing_is_padded_on_a_cpu_without_the_checking_backend(
    make_engine: Callable[..., Any], dispatched: list[tuple[BatchFacts, GraphKey | None]]
) -> None:
    engine = make_engine(CompileConfig(level=0))
    engine.add("a", [5, 6, 7])
    engine.run()
    assert dispatched == []


@pytest.mark.slow
@pytest.mark.parametrize("case", RUNNER_CASES, ids=str)
def test_a_runner_that_replays_conforms(folder: Path, registries: Any, case: RunnerCase) -> None:
    config = replace(tiny_engine_config(folder, attention_backend="cpu"), compile=CHECKING)
    check_runner(lambda changed: TorchModelRunner(changed, registries), config, case)


def test_a_plan_without_tokens_runs_without_a_graph(make_engine: Callable[..., Any]) -> None:
    runner = make_engine(CHECKING).runner
    plan = StepPlan(step_id=4, removed=[], added=[], continued=[], num_tokens={}, num_output_tokens={})
    assert runner.execute(plan).token_ids == {}
