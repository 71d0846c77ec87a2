"""Graphs of CUDA where there is none: every call against torch's own signatures, and the order of capture."""

import inspect
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from octavo_models.compile.cuda import CudaGraphs


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done, in order; arguments are bound to what torch takes."""
    made: list[str] = []

    def bound(name: str, original: Any, result: Any) -> None:
        signature = inspect.signature(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            signature.bind(*args, **kwargs)
            return result(*args, **kwargs)

        monkeypatch.setattr(torch.cuda, name, call)

    @contextmanager
    def during(name: str, *args: Any, **kwargs: Any) -> Any:
        made.append(f"{name}: {kwargs}" if kwargs else name)
        yield
        made.append(f"end of {name}")

    stream, graph = MagicMock(spec=torch.cuda.Stream), MagicMock(spec=torch.cuda.CUDAGraph)
    graph.replay = lambda: made.append("replay")
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    bound("graph_pool_handle", torch.cuda.graph_pool_handle, lambda: (0, 1))
    bound("current_stream", torch.cuda.current_stream, lambda *args: stream)
    bound("stream", torch.cuda.stream, lambda stream: during("stream"))
    bound("graph", torch.cuda.graph, lambda cuda_graph, **more: during("graph", **{name: more[name] for name in more if name != "stream"}))
    return made


def test_work_is_warmed_up_then_captured_into_the_one_pool_then_replayed(calls: list[str]) -> None:
    graphs = CudaGraphs(torch.device("cuda:0"))
    handle = graphs.capture(lambda: calls.append("work"), [torch.zeros(1)], "piece")
    handle.replay()
    capture = f"graph: {{'pool': {(0, 1)}, 'capture_error_mode': 'thread_local'}}"
    assert calls == ["stream", "work", "end of stream", capture, "work", "end of graph", "replay"]
