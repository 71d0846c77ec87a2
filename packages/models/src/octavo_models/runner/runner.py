"""The model runner for torch: builds what a step needs and hands the steps on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from octavo.cache.spec import KVGroup, kv_groups
from octavo.config.engine import Decision, EngineConfig
from octavo.config.step_times import keep_step_times
from octavo.engine.phases import phase
from octavo.engine.runner import ModelRunner, PoolSize
from octavo.env import cache_folder
from octavo.errors import ConfigurationError, PluginError
from octavo.memory import MemoryLedger, log_pool, size_pool
from octavo.plugins.registries import Registries
from octavo.profile.spans import SpanRecorder
from octavo.scheduler.plan import StepPlan, StepResult
from octavo_kernels.attention import AttentionBackend, AttentionSpec
from octavo_models.compile.compose import attention_specs
from octavo_models.compile.dispatch import GraphMode
from octavo_models.compile.pieces import EXAMPLE_ROWS
from octavo_models.loading.room import room_for
from octavo_models.model import PiecewiseModel
from octavo_models.runner.batch import BatchState
from octavo_models.runner.buffers import BorderBuffers, InputBuffers
from octavo_models.runner.choices import AUTO, attention_backend, logits_processor_class, model_class, sampler_class
from octavo_models.runner.clocks import clock_step
from octavo_models.runner.compiling import StepCompiler, capture_trial, graph_modes, make_dispatcher
from octavo_models.runner.cpu_kernels import choose_cpu_isa, choose_linear_method, describe_cpu
from octavo_models.runner.forward import Forward
from octavo_models.runner.memory_profile import (
    estimate_activations,
    largest_step,
    measure_activations,
    measure_graphs,
    read_ledger,
    weight_bytes,
)
from octavo_models.runner.pool import KVPool, allocate_pool
from octavo_models.runner.sample import RowSampler
from octavo_models.runner.step import Step
from octavo_models.runner.step_budget import measure_budget
from octavo_models.runner.threads import choose_threads
from octavo_models.runner.two_ways import time_two_ways
from octavo_models.sampling import Sampler
from octavo_models.sampling.batch import SamplingState

PageShapes = list[list[tuple[int, ...]]]
"""Shape of one layer's part of a block, of each layer of each KV group."""

_TORCH_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_USUAL_ATTENTION = AttentionSpec(num_heads=32, num_kv_heads=8, head_size=128, scale=128**-0.5)
_USUAL_BLOCK_SIZE = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """What `load` made."""

    model: PiecewiseModel
    backend: AttentionBackend
    sampler: Sampler


class TorchModelRunner(ModelRunner):
    """One rank on one device, eager. Registered as "torch"."""

    def __init__(self, config: EngineConfig, registries: Registries) -> None:
        super().__init__(config, registries)
        self._device = torch.device(config.device)
        self._dtype = _TORCH_DTYPES[config.load.dtype]
        self._cache_dtype = _TORCH_DTYPES[config.cache.dtype]
        self._groups = kv_groups(config.model, block_size=config.cache.block_size, dtype=config.cache.dtype)
        self._loaded: _Loaded | None = None
        self._step: Step | None = None
        self._compiler: StepCompiler | None = None

    @classmethod
    def describe(cls, registries: Registries) -> tuple[Decision, ...]:
        """Threads, kernels on a CPU, and the attention backend for a usual model."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        _, attention = attention_backend(
            registries, AUTO, [_USUAL_ATTENTION], block_size=_USUAL_BLOCK_SIZE, dtype=torch.bfloat16, device=device
        )
        _, linear = choose_linear_method(device, torch.bfloat16)
        return (attention, *choose_cpu_isa(AUTO, device), linear, choose_threads(), *describe_cpu(device))

    def load(self) -> None:
        """Build model, attention backend and sampler."""
        from octavo_models.loading.loader import load_model

        config = self.config
        threads = choose_threads()
        torch.set_num_threads(int(threads.value))
        architecture = model_class(self.registries, config.model.architecture)
        sampler = sampler_class(self.registries, config.sampler)
        isa = choose_cpu_isa(config.cpu_isa, self._device)
        method, linear = choose_linear_method(self._device, self._dtype)
        model = load_model(config, architecture, self._dtype, progress=True, linear_method=method)
        block_size = config.cache.block_size
        specs = dict.fromkeys(attention_specs(model.layers))
        backend, attention = attention_backend(
            self.registries, config.attention_backend, specs, block_size=block_size, dtype=self._cache_dtype, device=self._device
        )
        self._loaded = _Loaded(
            model=model, backend=backend(block_size=block_size, dtype=self._cache_dtype, device=self._device), sampler=sampler()
        )
        self.decisions = (attention, *isa, linear, threads, *describe_cpu(self._device))

    @room_for("the KV pool and the buffers of a step", "lower max_num_batched_tokens, max_num_seqs or the size of the pool")
    def allocate_pool(self) -> PoolSize:
        """Size and allocate the pool, and with it everything else that steps use."""
        loaded, config = self._require_loaded(), self.config
        page_shapes = _page_shapes(loaded, self._groups)
        modes = graph_modes(config.compile, loaded.model, loaded.backend, self._device)
        buffers = self._border_buffers(loaded.model, max(EXAMPLE_ROWS, config.scheduler.max_num_batched_tokens))
        size = size_pool(
            groups=self._groups,
            cache=config.cache,
            max_model_len=config.load.max_model_len,
            max_model_len_is_explicit=config.load.max_model_len_is_explicit,
            max_num_seqs=config.scheduler.max_num_seqs,
            max_step_tokens=config.scheduler.max_chunk,
            ledger=self._read_ledger(loaded, buffers, page_shapes, modes),
            on_cpu=self._device.type == "cpu",
        )
        log_pool(self._groups, size, max_step_tokens=config.scheduler.max_chunk)
        self._step = self._make_step(loaded, buffers, page_shapes, num_blocks=size.num_blocks + 1, max_model_len=size.max_model_len)
        make_buffers = partial(self._border_buffers, loaded.model)
        self._compiler = StepCompiler(config.compile, self._step, loaded.model, make_buffers, self._device)
        with phase("warm-up"):
            if self._device.type == "cpu" and not modes:
                self._step.note_down()
            self._compiler.start(modes)
            self._compare_ways(size)
            return self._with_budget(size)

    def _compare_ways(self, size: PoolSize) -> None:
        """Keep what steps take as written and compiled, where both are there and it is not known yet."""
        assert self._step is not None
        key, folder = self.config.compile.step_times_key, cache_folder()
        if key is None or folder is None or not self._step.forward.pieces.are_compiled:
            return
        block_size, num_groups = self.config.cache.block_size, len(self._groups)
        times = time_two_ways(self._step, max_model_len=size.max_model_len, block_size=block_size, num_groups=num_groups)
        if times is not None:
            _log.info("%s", times)
            keep_step_times(folder, key, times)

    def _with_budget(self, size: PoolSize) -> PoolSize:
        """The size with the token budget of a step, where that is for us to measure."""
        assert self._step is not None
        if self.config.scheduler.step_time_s is None:
            return size
        block_size = self.config.cache.block_size
        budget = measure_budget(
            self._step.run,
            self.config.scheduler,
            max_model_len=size.max_model_len,
            block_size=block_size,
            num_groups=len(self._groups),
        )
        self.decisions = (*self.decisions, *budget.decisions)
        return replace(size, max_num_batched_tokens=budget.max_num_batched_tokens, context_scale=budget.context_scale)

    def execute(self, plan: StepPlan) -> StepResult:
        """Run one step."""
        assert self._step is not None, "execute comes after allocate_pool"
        assert self._compiler is not None
        self._compiler.poll()
        return self._step.run(plan)

    @contextmanager
    def profiled(self, spans: SpanRecorder) -> Iterator[None]:
        """Clock the parts of every step inside. Raises `ConfigurationError` while pieces are compiled in the background."""
        assert self._step is not None, "profiled comes after allocate_pool"
        assert self._compiler is not None
        if self._compiler.is_under_way:
            raise ConfigurationError("steps change while they are profiled: leave off --compile-in-background")
        with clock_step(self._step, spans):
            yield

    def save_compiled(self, file: Path) -> int:
        """Write what was compiled to a file; its bytes. Raises `ConfigurationError` where nothing was."""
        assert self._compiler is not None, "save_compiled comes after allocate_pool"
        return self._compiler.save(file)

    def shutdown(self) -> None:
        """Let go of weights and pool."""
        self._loaded = None
        self._step = None
        self._compiler = None

    def _require_loaded(self) -> _Loaded:
        assert self._loaded is not None, "allocate_pool comes after load"
        return self._loaded

    def _border_buffers(self, model: PiecewiseModel, max_tokens: int) -> BorderBuffers:
        return BorderBuffers(
            max_tokens=max_tokens,
            carry=model.carry,
            borders=[border for layer in model.layers for border in layer.borders],
            dtype=self._dtype,
            cache_dtype=self._cache_dtype,
            device=self._device,
        )

    def _read_ledger(self, loaded: _Loaded, buffers: BorderBuffers, page_shapes: PageShapes, modes: tuple[GraphMode, ...]) -> MemoryLedger:
        """What there is, and what weights, the largest step and graphs take of it: computed on a CPU, measured elsewhere."""
        scheduler, max_model_len = self.config.scheduler, self.config.load.max_model_len
        limits = {"max_tokens": scheduler.max_num_batched_tokens, "max_requests": scheduler.max_num_seqs}
        weights = weight_bytes(loaded.model)
        if self._device.type == "cpu":
            activations = buffers.num_bytes + estimate_activations(self.config.model, **limits, dtype=self._dtype)
            return read_ledger(self._device, weights=weights, activations=activations)
        trial = self._make_step(loaded, buffers, page_shapes, num_blocks=1, max_model_len=max_model_len)
        plan = largest_step(**limits, max_model_len=max_model_len, block_size=self.config.cache.block_size, num_groups=len(self._groups))
        activations = buffers.num_bytes + measure_activations(lambda: trial.run(plan), self._device)
        graphs = 0
        if modes:
            capture = partial(capture_trial, self.config.compile, trial, self._device)
            graphs = measure_graphs(capture, make_dispatcher(trial, modes).keys(), self._device)
        return read_ledger(self._device, weights=weights, activations=activations, graphs=graphs)

    def _make_step(self, loaded: _Loaded, buffers: BorderBuffers, page_shapes: PageShapes, *, num_blocks: int, max_model_len: int) -> Step:
        limits, groups = self.config.scheduler, self._groups
        find_processor = partial(logits_processor_class, self.registries)
        sampling = SamplingState(limits.max_num_seqs, self.config.model.vocab_size, self._device, find_processor=find_processor)
        pool = allocate_pool(num_blocks=num_blocks, page_shapes=page_shapes, dtype=self._cache_dtype, device=self._device)
        state = BatchState(max_num_seqs=limits.max_num_seqs, num_groups=len(groups), sampling=sampling)
        return Step(
            state=state,
            buffers=InputBuffers(
                max_tokens=limits.max_num_batched_tokens,
                max_requests=limits.max_num_seqs,
                max_blocks=[-(-max_model_len // group.block_size) for group in groups],
                device=self._device,
                max_seq_len=max_model_len,
            ),
            block_sizes=tuple(group.block_size for group in groups),
            forward=Forward(
                model=loaded.model,
                backend=loaded.backend,
                buffers=buffers,
                rotary=[table.to(self._device) for table in loaded.model.rotary_tables(max_model_len)],
                caches=_caches_by_layer(pool, groups),
            ),
            sampler=RowSampler(state=state, sampler=loaded.sampler, pool=pool),
        )


def _page_shapes(loaded: _Loaded, groups: tuple[KVGroup, ...]) -> PageShapes:
    """Page shapes of the layers of each group, and of those that pad it.

    Raises `PluginError` where the model attends more or less often than is planned for, a layer sees more than its group keeps, or a
    backend's pages have another size than is planned for.
    """
    attention, planned = attention_specs(loaded.model.layers), sum(len(group.layers) for group in groups)
    if len(attention) != planned:
        raise PluginError(f"the model attends {len(attention)} times; its configuration plans KV caches for {planned}")
    shapes = []
    for group in groups:
        specs = [attention[layer] for layer in group.layers]
        for layer, spec in zip(group.layers, specs, strict=True):
            _check_window(layer, seen=spec.sliding_window, kept=group.spec.window)
        pages = [loaded.backend.page_shape(spec) for spec in specs]
        pages += pages[-1:] * group.num_padded_layers
        num_bytes = sum(torch.Size(page).numel() for page in pages) * loaded.backend.dtype.itemsize
        if num_bytes != group.bytes_per_block:
            raise PluginError(
                f"attention backend {loaded.backend.name!r} has blocks of {num_bytes} bytes; {group.bytes_per_block} are planned for"
            )
        shapes.append(pages)
    return shapes


def _check_window(layer: int, *, seen: int | None, kept: int | None) -> None:
    if kept is not None and (seen is None or seen > kept):
        reach = "every token" if seen is None else f"{seen} tokens"
        raise PluginError(
            f"layer {layer} of the model sees {reach}, but its configuration says that it has a window of {kept}, beyond which "
            "no KV is kept: its AttentionSpec must have the sliding_window of ModelConfig.window"
        )


def _caches_by_layer(pool: KVPool, groups: tuple[KVGroup, ...]) -> list[tuple[int, Tensor]]:
    """The KV group and the cache of each layer."""
    by_layer: dict[int, tuple[int, Tensor]] = {}
    for index, (group, caches) in enumerate(zip(groups, pool.caches, strict=True)):
        by_layer |= {layer: (index, cache) for layer, cache in zip(group.layers, caches, strict=False)}
    return [by_layer[layer] for layer in range(len(by_layer))]
