"""Steps as programs of C++ calls give what they give op by op."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from octavo.plugins.registries import Registries
from octavo.sampling_params import SamplingParams
from octavo_kernels.native import load_native
from octavo_models.runner.forward import Forward

MakeDriver = Callable[..., Any]


@pytest.fixture(autouse=True)
def _native(registries: Registries) -> None:
    if load_native() is None:
        pytest.skip("the C++ library was not built")
    registries.attention_backends.register("cpu", "octavo_kernels.attention.cpu:CpuAttention")


def generate(driver: Any, chunk: int) -> dict[str, list[int]]:
    for index, length in enumerate((23, 1, 9)):
        driver.add(str(index), random.Random(index).choices(range(3, 320), k=length), SamplingParams(temperature=0.7), seed=index)
    generated: dict[str, list[int]] = driver.generate(12, chunk=chunk)
    return generated


def runs_as_programs(driver: Any) -> bool:
    forward = driver.runner._step.forward
    assert (forward._program is None) == (forward._last_program is None)
    return forward._program is not None


@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_tokens_are_those_of_steps_without_programs(make_driver: MakeDriver, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    with_programs = make_driver()
    found = generate(with_programs, chunk)
    assert runs_as_programs(with_programs)
    monkeypatch.setattr(Forward, "note_down", lambda self, inputs: None)
    without = make_driver()
    assert found == generate(without, chunk)
    assert not runs_as_programs(without)


def test_noting_down_leaves_no_trace_in_the_pool(make_driver: MakeDriver) -> None:
    forward = make_driver().runner._step.forward
    assert all(bool((cache == 0).all()) for _, cache in forward._caches)


def test_other_backends_run_op_by_op(make_driver: MakeDriver) -> None:
    driver = make_driver(attention_backend="sdpa")
    driver.add("a", [5, 6, 7])
    driver.generate(3)
    assert not runs_as_programs(driver)


def test_a_budget_of_one_token_runs_op_by_op(make_driver: MakeDriver) -> None:
    driver = make_driver(scheduler=replace(make_driver().runner.config.scheduler, max_num_batched_tokens=1, max_num_seqs=1))
    driver.add("a", [5, 6, 7])
    driver.generate(3, chunk=1)
    assert not runs_as_programs(driver)
