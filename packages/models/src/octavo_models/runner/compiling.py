"""Brings compiled pieces and graphs to the steps of a runner, before the first step or between two."""

import gc
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import torch

from octavo.config.compile import CompileConfig
from octavo.env import cache_folder, keep_compiled_in
from octavo.errors import ConfigurationError, summarized
from octavo_kernels.attention import AttentionBackend
from octavo_models.compile.artifacts import Key, artifact_key, load_artifacts, save_artifacts
from octavo_models.compile.background import Background
from octavo_models.compile.compose import attention_specs
from octavo_models.compile.dispatch import Dispatcher, GraphKey, GraphMode, lower_modes
from octavo_models.compile.graphs import GraphBackend
from octavo_models.model import PiecewiseModel
from octavo_models.runner.buffers import BorderBuffers
from octavo_models.runner.inputs import empty_inputs
from octavo_models.runner.step import Step

CHECKING = "checking"

_OPTIONS: dict[int, dict[str, Any]] = {3: {"max_autotune": True, "coordinate_descent_tuning": True}}
"""What inductor is told at a level, beside its own defaults."""

_log = logging.getLogger(__name__)

Functions = dict[Hashable, Callable[..., Any]]


class StepCompiler:
    """Compiles the pieces of a step's forward and captures its graphs, as a configuration wants it.

    Args:
        config: what is wanted.
        step: runs as written until it is brought more.
        model: of the step.
        make_buffers: of a number of rows, for the compiler to run pieces on.
        device: of the step.
    """

    def __init__(
        self, config: CompileConfig, step: Step, model: PiecewiseModel, make_buffers: Callable[[int], BorderBuffers], device: torch.device
    ) -> None:
        self._config = config
        self._step = step
        self._model = model
        self._make_buffers = make_buffers
        self._device = device
        self._options = _OPTIONS.get(config.level, {})
        self._graph_modes: tuple[GraphMode, ...] = ()
        self._background: Background[Functions | None] | None = None

    def start(self, graph_modes: Sequence[GraphMode]) -> None:
        """Compile and capture; where compiling is left to the background, `poll` does the rest."""
        self._graph_modes = tuple(graph_modes)
        compiles = self._config.compiles and self._config.graph_backend != CHECKING
        if compiles and self._config.in_background:
            self._background = Background(self._compile, "octavo-compile")
            return
        self._finish(self._compile() if compiles else None)

    def poll(self) -> None:
        """Between two steps: take what the background is done with."""
        if self._background is not None and self._background.is_done:
            functions = self._background.result()
            self._background = None
            self._finish(functions)

    @property
    def is_under_way(self) -> bool:
        """Whether the background compiles, so that `poll` will change the step."""
        return self._background is not None

    def save(self, file: Path) -> int:
        """Write what was compiled to a file; its bytes. Raises `ConfigurationError` where nothing was."""
        if not self._config.compiles:
            raise ConfigurationError("nothing is compiled with enforce_eager or optimization_level 0: give optimization_level 1, 2 or 3")
        if not self._step.forward.pieces.are_compiled:
            raise ConfigurationError("the model was not compiled, so there is nothing to write: the warning says why")
        return save_artifacts(file, self._key())

    def _compile(self) -> Functions | None:
        """One compiled function a signature; None, with a warning, where the model cannot be compiled."""
        pieces, config = self._step.forward.pieces, self._config
        if (folder := cache_folder()) is not None:
            keep_compiled_in(folder / "compiled")
        if config.artifacts is not None:
            load_artifacts(config.artifacts, self._key())
        # It looks for CUDA wherever a compiler for the CPU is asked for, and misses it aloud.
        logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
        start = time.perf_counter()
        _log.info("compiling %d pieces: %s", len(pieces.names), ", ".join(pieces.names.values()))
        for signature, name in pieces.names.items():
            _log.debug("piece %r: %s", name, signature)
        try:
            functions = pieces.compiled(self._make_buffers, self._options)
        except Exception as error:  # noqa: BLE001 - whatever a compiler raises: the model runs without it, and slower than it could
            _log.warning("the model cannot be compiled, so it runs as written: %s: %s", type(error).__name__, summarized(error))
            _log.debug("what the compiler says:", exc_info=error)
            return None
        _log.info("compiled in %.1f s", time.perf_counter() - start)
        return functions

    def _finish(self, functions: Functions | None) -> None:
        if functions is not None:
            self._step.forward.pieces.replace(functions)
        if self._graph_modes:
            self._capture()

    def _capture(self) -> None:
        step, start = self._step, time.perf_counter()
        dispatcher = make_dispatcher(step, self._graph_modes)
        graphs, keys = make_graph_backend(self._config, self._device), dispatcher.keys()
        _log.info("capturing %d graphs, of up to %d rows", len(keys), keys[0].num_rows)
        capture_graphs(graphs, step, keys)
        graphs.seal()
        step.dispatcher = dispatcher
        _log.info("captured in %.1f s", time.perf_counter() - start)

    def _key(self) -> Key:
        pieces = self._step.forward.pieces
        return artifact_key(signatures=pieces.names, options=self._options, device=self._device, model=self._model)


def graph_modes(config: CompileConfig, model: PiecewiseModel, backend: AttentionBackend, device: torch.device) -> tuple[GraphMode, ...]:
    """The modes of graphs that a configuration wants, as far as device, attention and the model's borders carry them."""
    if device.type == "cpu" and config.graph_backend != CHECKING:
        return ()
    wanted = [GraphMode(name) for name in config.graphs]
    opaque = sum(len(layer.borders) for layer in model.layers) - len(attention_specs(model.layers))
    modes = lower_modes(wanted, backend.graph_support, all_borders_attend=opaque == 0)
    if len(modes) < len(wanted):
        _log.info("attention backend %r is not captured, so decode steps are replayed in pieces", backend.name)
    return modes


def make_dispatcher(step: Step, modes: Sequence[GraphMode]) -> Dispatcher:
    """Of batches that the buffers of a step hold."""
    return Dispatcher(modes, max_tokens=step.buffers.max_tokens, max_requests=step.buffers.max_requests)


def make_graph_backend(config: CompileConfig, device: torch.device) -> GraphBackend:
    """What captures graphs on a device that has `graph_modes`."""
    if config.graph_backend == CHECKING:
        from octavo_models.compile.checking import CheckingGraphs

        return CheckingGraphs()
    from octavo_models.compile.cuda import CudaGraphs

    return CudaGraphs(device)


def capture_graphs(graphs: GraphBackend, step: Step, keys: Sequence[GraphKey]) -> None:
    """Capture graphs in this order. Garbage is collected once before, and not looked at again while they are made."""
    gc.collect()
    gc.freeze()
    try:
        for key in keys:
            step.forward.capture(graphs, key, empty_inputs(step.buffers, key))
    finally:
        gc.unfreeze()


def capture_trial(config: CompileConfig, step: Step, device: torch.device, keys: Sequence[GraphKey]) -> Callable[[], None]:
    """Capture graphs of a step, to see what they take; call the result to let go of them."""
    capture_graphs(make_graph_backend(config, device), step, keys)
    return step.forward.forget_graphs
