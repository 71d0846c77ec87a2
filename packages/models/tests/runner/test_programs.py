"""Steps as programs of C++ calls give what they give op by op."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from octavo.plugins.registries import Registries
from octavo.sampling_params import SamplingParams
from octavo_kernels.native import load_native
from octavo_models.runner.programs import StepProgram

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


@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_tokens_are_those_of_steps_without_programs(make_driver: MakeDriver, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    with_programs = make_driver()
    found = generate(with_programs, chunk)
    assert with_programs.runner._step.forward._program._program is not None
    monkeypatch.setattr(StepProgram, "run", lambda self, num_tokens, plans, step: step(lambda: None))
    assert found == generate(make_driver(), chunk)


def test_one_row_alone_is_not_noted_down(make_driver: MakeDriver) -> None:
    driver = make_driver()
    driver.add("a", [5])
    driver.generate(3)
    assert driver.runner._step.forward._program._program is None
    driver.add("b", [5, 6, 7])
    driver.generate(5)
    assert driver.runner._step.forward._program._program is not None


def test_other_backends_run_op_by_op(make_driver: MakeDriver) -> None:
    driver = make_driver(attention_backend="sdpa")
    driver.add("a", [5, 6, 7])
    driver.generate(3)
    assert driver.runner._step.forward._program._program is None
