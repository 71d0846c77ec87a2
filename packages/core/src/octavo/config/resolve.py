"""One pure step from what the user typed to what the engine runs with: every "auto" becomes a value with a reason."""

import logging

from octavo.cache.spec import DTYPE_BYTES
from octavo.config.cache import CacheConfig
from octavo.config.checks import check_bool, check_bytes, check_choice, check_count, check_registered, check_share
from octavo.config.compile_options import settle_compile
from octavo.config.defaults import BLOCK_SIZE, MAX_NUM_SEQS, STEP_TIME_CPU_S, decide_batched_tokens, decide_device, decide_quantized_dtype
from octavo.config.engine import DEFAULT_EXECUTOR, Decision, EngineConfig
from octavo.config.load import LoadConfig
from octavo.config.machine import Machine
from octavo.config.options import EngineOptions
from octavo.config.scheduler import SchedulerConfig
from octavo.config.step_times import step_times_key
from octavo.errors import ConfigurationError, shown
from octavo.model.config import ModelConfig
from octavo.model.folder import DUMMY
from octavo.model.source import ModelFiles
from octavo.plugins.registries import Registries

AUTO = "auto"
DTYPES = tuple(DTYPE_BYTES)
MAX_BLOCK_SIZE = 256
CPU_ISAS = ("portable", "avx2", "avx512", "avx512_bf16", "avx512_fp16", "amx")
DEFAULT_RUNNER = "torch"
DEFAULT_SAMPLER = "default"

_log = logging.getLogger(__name__)


class _Decisions:
    """Collects how each "auto" was settled."""

    def __init__(self) -> None:
        self.made: list[Decision] = []

    def settle(self, name: str, value: str, reason: str) -> str:
        return self.take(Decision(name=name, value=value, reason=reason))

    def take(self, decision: Decision) -> str:
        self.made.append(decision)
        return decision.value


def resolve(options: EngineOptions, files: ModelFiles, model: ModelConfig, machine: Machine, registries: Registries) -> EngineConfig:
    """Check every option and settle every "auto".

    Names that stay to be found at run time ("auto" of the attention backend, the default runner and sampler) are checked by their
    taker; names that the user gave are looked up here.

    Raises:
        ConfigurationError: one line with the value, the limit and the way out.
    """
    decisions = _Decisions()
    device = decisions.take(decide_device(machine))
    load = _load(options, files, model, machine, decisions)
    cache = _cache(options, load.dtype, decisions)
    scheduler = _scheduler(options, machine, registries, decisions)
    backend = check_registered("attention_backend", options.attention_backend, registries.attention_backends, besides=(AUTO,))
    cpu_isa = check_choice("cpu_isa", options.cpu_isa, (AUTO, *CPU_ISAS))
    runner = _runner(options, registries, decisions)
    times_key = step_times_key(
        model,
        cpu=machine.cpu_model,
        num_threads=machine.num_threads or machine.num_cpus,
        dtype=load.dtype,
        kv_cache_dtype=cache.dtype,
        attention_backend=backend,
        cpu_isa=cpu_isa,
        runner=runner,
    )
    compile_config, compile_decisions = settle_compile(options, machine, times_key=times_key)
    decisions.made += compile_decisions
    return EngineConfig(
        model=model,
        load=load,
        cache=cache,
        scheduler=scheduler,
        attention_backend=backend,
        runner=runner,
        sampler=_sampler(options, registries, decisions),
        executor=_executor(options, registries, decisions),
        cpu_isa=cpu_isa,
        device=device,
        seed=None if options.seed is None else check_count("seed", options.seed, minimum=0),
        decisions=tuple(decisions.made),
        max_logprobs=check_count("max_logprobs", options.max_logprobs, minimum=0),
        compile=compile_config,
    )


def _load(options: EngineOptions, files: ModelFiles, model: ModelConfig, machine: Machine, decisions: _Decisions) -> LoadConfig:
    _check_load_format(options.load_format, files)
    if files.dummy:
        _log.warning("the weights of %s are random: answers mean nothing, shapes, memory and speed do", files.name)
    generation_config = check_choice("generation_config", options.generation_config, (AUTO, "none"))
    return LoadConfig(
        files=files,
        dtype=_dtype(options.dtype, files, model, machine, decisions),
        max_model_len=_max_model_len(options.max_model_len, model, decisions),
        max_model_len_is_explicit=options.max_model_len not in (None, AUTO),
        use_generation_config=generation_config == AUTO,
    )


def _check_load_format(load_format: object, files: ModelFiles) -> None:
    wanted = check_choice("load_format", load_format, (AUTO, "safetensors", "gguf", DUMMY))
    if wanted not in {AUTO, DUMMY, files.format}:
        raise ConfigurationError(
            f"load_format {wanted!r} does not match {files.name!r}, whose files are {files.format}: leave it at auto, or name other files"
        )


def _dtype(option: object, files: ModelFiles, model: ModelConfig, machine: Machine, decisions: _Decisions) -> str:
    dtype = check_choice("dtype", option, (AUTO, *DTYPES))
    if dtype == AUTO:
        if files.format == "gguf":
            return decisions.take(decide_quantized_dtype(machine))
        if model.stored_dtype not in DTYPES:
            raise ConfigurationError(f"dtype 'auto' cannot follow the stored type {model.stored_dtype!r}: give one of {', '.join(DTYPES)}")
        return decisions.settle("dtype", model.stored_dtype, "as stored")
    if dtype == "float16" and model.stored_dtype in {"bfloat16", "float32"}:
        _log.warning(
            "dtype float16 holds no more than 65,504 and the model is stored in %s: if requests fail, use bfloat16", model.stored_dtype
        )
    if dtype == "bfloat16" and model.stored_dtype in {"float16", "float32"}:
        _log.warning("dtype bfloat16 keeps fewer digits than %s, which the model is stored in", model.stored_dtype)
    return dtype


def _max_model_len(option: object, model: ModelConfig, decisions: _Decisions) -> int:
    if option in (None, AUTO):
        reason = "the model's own" if model.default_length == model.max_position else f"before it is stretched to {model.max_position:,}"
        decisions.settle("max_model_len", str(model.default_length), f"{reason}; less where the KV pool is smaller")
        return model.default_length
    length = check_count("max_model_len", option, minimum=1)
    if length > model.max_position:
        raise ConfigurationError(
            f"max_model_len {length:,} is over the model's own {model.max_position:,}: give {model.max_position:,} or less, or leave it out"
        )
    return length


def _cache(options: EngineOptions, dtype: str, decisions: _Decisions) -> CacheConfig:
    num_blocks = None if options.num_blocks is None else check_count("num_blocks", options.num_blocks, minimum=1)
    memory = options.kv_cache_memory_bytes
    memory_bytes = None if memory is None else check_bytes("kv_cache_memory_bytes", memory)
    if num_blocks is not None and memory_bytes is not None:
        raise ConfigurationError(
            f"num_blocks {num_blocks:,} and kv_cache_memory_bytes {shown(memory)} both size the pool: give one of them"
        )
    utilization = options.memory_utilization
    return CacheConfig(
        block_size=_block_size(options.block_size, decisions),
        dtype=_kv_cache_dtype(options.kv_cache_dtype, dtype, decisions),
        num_blocks=num_blocks,
        memory_bytes=memory_bytes,
        memory_utilization=None if utilization is None else check_share("memory_utilization", utilization),
        enable_prefix_caching=check_bool("enable_prefix_caching", options.enable_prefix_caching),
    )


def _block_size(option: object, decisions: _Decisions) -> int:
    if option == AUTO:
        return int(decisions.settle("block_size", str(BLOCK_SIZE), "default"))
    block_size = check_count("block_size", option, minimum=8)
    if block_size > MAX_BLOCK_SIZE or block_size % 8:
        raise ConfigurationError(
            f"block_size {block_size} is not a multiple of 8 from 8 to {MAX_BLOCK_SIZE}: give 16 or 32, or leave it out"
        )
    return block_size


def _kv_cache_dtype(option: object, dtype: str, decisions: _Decisions) -> str:
    kv_dtype = check_choice("kv_cache_dtype", option, (AUTO, *DTYPES))
    return decisions.settle("kv_cache_dtype", dtype, "as dtype") if kv_dtype == AUTO else kv_dtype


def _scheduler(options: EngineOptions, machine: Machine, registries: Registries, decisions: _Decisions) -> SchedulerConfig:
    max_num_seqs, max_num_batched_tokens = _step_limits(options, machine, decisions)
    return SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        long_prefill_token_threshold=check_count("long_prefill_token_threshold", options.long_prefill_token_threshold, minimum=0),
        policy=check_registered("scheduling_policy", options.scheduling_policy, registries.scheduler_policies),
        step_time_s=STEP_TIME_CPU_S if options.max_num_batched_tokens == AUTO and not machine.has_cuda else None,
    )


def _step_limits(options: EngineOptions, machine: Machine, decisions: _Decisions) -> tuple[int, int]:
    """Requests and tokens of a step. Each running request takes at least one token, so the one that is left to us gives way."""
    seqs = None if options.max_num_seqs == AUTO else check_count("max_num_seqs", options.max_num_seqs, minimum=1)
    tokens_option = options.max_num_batched_tokens
    tokens = None if tokens_option == AUTO else check_count("max_num_batched_tokens", tokens_option, minimum=1)
    if seqs is not None and tokens is not None and seqs > tokens:
        raise ConfigurationError(
            f"max_num_seqs {seqs:,} is over max_num_batched_tokens {tokens:,}, and each request takes a token a step: "
            "lower the one or raise the other"
        )
    if tokens is None:
        decision = decide_batched_tokens(machine)
        if seqs is not None and seqs > int(decision.value):
            decision = Decision(name=decision.name, value=str(seqs), reason="a token for each of max_num_seqs")
        tokens = int(decisions.take(decision))
    if seqs is None:
        reason = "default" if tokens >= MAX_NUM_SEQS else "no more than max_num_batched_tokens"
        seqs = int(decisions.settle("max_num_seqs", str(min(MAX_NUM_SEQS, tokens)), reason))
    return seqs, tokens


def _runner(options: EngineOptions, registries: Registries, decisions: _Decisions) -> str:
    runner = check_registered("runner", options.runner, registries.runners, besides=(AUTO,))
    return decisions.settle("runner", DEFAULT_RUNNER, "default") if runner == AUTO else runner


def _executor(options: EngineOptions, registries: Registries, decisions: _Decisions) -> str:
    executor = check_registered("executor", options.executor, registries.executors, besides=(AUTO,))
    return decisions.settle("executor", DEFAULT_EXECUTOR, "one rank needs no process of its own") if executor == AUTO else executor


def _sampler(options: EngineOptions, registries: Registries, decisions: _Decisions) -> str:
    sampler = check_registered("sampler", options.sampler, registries.samplers, besides=(AUTO,))
    return decisions.settle("sampler", DEFAULT_SAMPLER, "default") if sampler == AUTO else sampler
