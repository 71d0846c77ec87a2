"""Graphs of CUDA."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from octavo_models.compile.graphs import GraphBackend, GraphHandle


class CudaGraphHandle(GraphHandle):
    """A graph of CUDA, and the tensors that it works on."""

    def __init__(self, graph: torch.cuda.CUDAGraph, inputs: Sequence[Tensor]) -> None:
        self._graph = graph
        self._inputs = tuple(inputs)

    def replay(self) -> None:
        self._graph.replay()


class CudaGraphs(GraphBackend):
    """One pool and one stream for all graphs. Work of other threads does not disturb a capture.

    Args:
        device: a CUDA device.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def _capture(self, work: Callable[[], object], inputs: Sequence[Tensor], name: str) -> GraphHandle:  # noqa: ARG002
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            work()
        current.wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            work()
        return CudaGraphHandle(graph, inputs)
