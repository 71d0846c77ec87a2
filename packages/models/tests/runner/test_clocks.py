"""Clocks around a step say where its time goes, and leave it as it was."""

from collections.abc import Callable
from typing import Any

import pytest

from octavo.config.compile import CompileConfig
from octavo.errors import ConfigurationError
from octavo.plugins.registries import Registries
from octavo.profile.parts import Part
from octavo.profile.spans import Detail, SpanRecorder
from octavo_kernels.native import INSTALLED

MakeDriver = Callable[..., Any]

OPS = {Part.LINEAR, Part.ATTENTION, Part.ROW_OPS, Part.HEAD}


def run(driver: Any, spans: SpanRecorder | None) -> list[int]:
    """Three tokens behind a prompt, two requests, clocked or not."""
    for name, first in (("a", 5), ("b", 9)):
        driver.add(name, range(first, first + 12))
    if spans is None:
        tokens = driver.generate(3)
    else:
        with driver.runner.profiled(spans):
            tokens = driver.generate(3)
    for name in ("a", "b"):
        driver.remove(name)
    return [*tokens["a"], *tokens["b"]]


@pytest.fixture(params=["sdpa", pytest.param("cpu", marks=pytest.mark.skipif(not INSTALLED, reason="the C++ library was not built"))])
def driver(request: pytest.FixtureRequest, make_driver: MakeDriver, registries: Registries) -> Any:
    registries.attention_backends.register("cpu", "octavo_kernels.attention.cpu:CpuAttention")
    return make_driver(attention_backend=request.param)


@pytest.mark.parametrize("detail", Detail)
def test_tokens_are_the_same_under_clocks_and_nothing_is_clocked_afterwards(driver: Any, detail: Detail) -> None:
    expected, spans = run(driver, None), SpanRecorder(detail)
    assert run(driver, spans) == expected
    seconds, num_spans = spans.library_s, len(spans.spans)
    assert run(driver, None) == expected
    assert (spans.library_s, len(spans.spans)) == (seconds, num_spans)


def test_every_family_of_ops_has_its_time(driver: Any) -> None:
    spans = SpanRecorder()
    run(driver, spans)
    seconds = spans.take_totals()
    assert seconds.keys() >= OPS | {Part.PREPARE, Part.SAMPLE}
    assert sum(seconds[part] for part in OPS) <= seconds[Part.FORWARD] + seconds[Part.HEAD]
    assert 0 < spans.library_s <= sum(seconds.values())
    assert {span.part for span in spans.spans} >= OPS | {Part.FORWARD}


def test_calls_alone_keep_no_spans(driver: Any) -> None:
    spans = SpanRecorder(Detail.CALLS)
    run(driver, spans)
    assert spans.library_s > 0
    assert spans.spans == []


def test_graphs_are_clocked_as_wholes(make_driver: MakeDriver) -> None:
    spans, driver = SpanRecorder(), make_driver(compile=CompileConfig(graph_backend="checking"))
    run(driver, spans)
    assert spans.take_totals()[Part.GRAPHS] > 0


def test_a_background_compile_is_not_profiled(make_driver: MakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = make_driver()
    monkeypatch.setattr(driver.runner._compiler, "_background", object())
    with pytest.raises(ConfigurationError, match="leave off --compile-in-background"), driver.runner.profiled(SpanRecorder()):
        pass
    monkeypatch.undo()
