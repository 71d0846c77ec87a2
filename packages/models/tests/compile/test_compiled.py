"""Pieces through torch's compiler: the numbers and tokens of eager mode, one compile a signature, and none afterwards."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from octavo.config.compile import CompileConfig
from octavo.config.step_times import read_step_times
from octavo.errors import ConfigurationError
from octavo_models.compile.pieces import Pieces, compile_function
from octavo_models.runner import two_ways
from octavo_models.testing.dense import tiny_engine_config
from octavo_models.testing.gemma3 import write_tiny_gemma3

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning")

EAGER = CompileConfig(enforce_eager=True)
COMPILED = CompileConfig(level=2)


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(autouse=True)
def compiler(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of its own and a compiler that remembers nothing, spared what pays for many pieces only: trial programs, headers ahead."""
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache_home))
    torch._dynamo.reset()
    with config.patch({"cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": True}):
        yield
    torch._dynamo.reset()


def num_compiles() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def traffic(engine: Any) -> dict[str, list[int]]:
    engine.add("a", list(range(5, 30)))
    for _ in range(3):
        engine.step()
    engine.add("b", [9, 8, 7])
    engine.add("c", [40], temperature=0.9, seed=1)
    return dict(engine.run())


def test_a_compiled_function_serves_every_number_of_rows_and_compiles_once() -> None:
    def double(x: Tensor, out: Tensor) -> None:
        out.copy_(x.exp() * 2)

    compiled, x, out = compile_function(double, {}), torch.randn(4, 3), torch.empty(4, 3)
    for tensor in (x, out):
        torch._dynamo.mark_dynamic(tensor, 0)
    before = num_compiles()
    compiled(x, out)
    for rows in (4, 1, 2, 37):
        x, out = torch.randn(rows, 3), torch.empty(rows, 3)
        compiled(x, out)
        torch.testing.assert_close(out, x.exp() * 2)
    assert num_compiles() - before == 1


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_level_gives_the_tokens_of_eager_mode(make_engine: Callable[..., Any], level: int) -> None:
    before = num_compiles()
    engine = make_engine(replace(COMPILED, level=level))
    assert num_compiles() - before == 3
    before = num_compiles()
    assert traffic(engine) == traffic(make_engine(EAGER))
    assert num_compiles() == before, "nothing is compiled once steps run"


def test_what_cannot_be_compiled_runs_as_written_and_is_no_file(
    make_engine: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the backend raised:\nInvalidCxxCompiler: no C++ compiler")

    monkeypatch.setattr(Pieces, "compiled", fail)
    engine = make_engine(COMPILED)
    assert "InvalidCxxCompiler: no C++ compiler" in caplog.text
    with pytest.raises(ConfigurationError, match="was not compiled"):
        engine.runner.save_compiled(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
    assert traffic(engine) == traffic(make_engine(EAGER))


@pytest.mark.slow
def test_what_steps_take_both_ways_is_kept(make_engine: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(two_ways, "REQUESTS", (1, 3))
    monkeypatch.setattr(two_ways, "CONTEXT", 20)
    engine = make_engine(replace(COMPILED, step_times_key="model"))
    times = read_step_times(tmp_path / "octavo")["model"]
    assert times.written.keys() == times.compiled.keys()
    assert traffic(engine) == traffic(make_engine(EAGER))


@pytest.mark.slow
def test_layers_of_several_kinds_have_pieces_of_their_own(make_engine: Callable[..., Any], tmp_path: Path) -> None:
    gemma = write_tiny_gemma3(tmp_path / "gemma", vocab_size=320, seed=1)
    fields = {"model": gemma, "cache": replace(tiny_engine_config(gemma).cache, num_blocks=40)}
    engine = make_engine(COMPILED, **fields)
    names = engine.runner._step.forward.pieces.names
    assert list(names.values()) == ["first", "mid", "mid_1", "mid_2", "last"]
    assert traffic(engine) == traffic(make_engine(EAGER, **fields))


@pytest.mark.slow
def test_requests_are_served_while_pieces_compile_and_the_same_afterwards(
    make_engine: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        engine = make_engine(replace(COMPILED, in_background=True))
        pieces = engine.runner._step.forward.pieces
        as_written = dict(pieces._functions)
        wanted = traffic(make_engine(EAGER))
        rounds = 0
        while pieces._functions == as_written:
            assert traffic(engine) == wanted
            rounds += 1
            assert rounds < 2000, "compiling comes to an end"
        before = num_compiles()
        assert traffic(engine) == wanted
    assert num_compiles() == before
    assert "compiled piece 'last' (3 of 3)" in caplog.text


@pytest.mark.slow
def test_a_file_of_artifacts_spares_compiling(make_engine: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    file = tmp_path / "compiled"
    first = make_engine(COMPILED)
    assert first.runner.save_compiled(file) > 0
    wanted = traffic(first)
    torch._dynamo.reset()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "empty"))
    counters.clear()
    assert traffic(make_engine(replace(COMPILED, artifacts=file))) == wanted
    assert counters["inductor"]["fxgraph_cache_miss"] == 0
    assert counters["aot_autograd"]["autograd_cache_hit"] + counters["inductor"]["fxgraph_cache_hit"] >= 3
    file.write_bytes(file.read_bytes()[:-1])
    torch._dynamo.reset()
    assert traffic(make_engine(replace(COMPILED, artifacts=file))) == wanted
