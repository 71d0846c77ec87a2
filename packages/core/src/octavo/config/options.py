"""What a user may set, one field a flag: the command line and the keywords of `LLM` are both made from this class."""

from dataclasses import dataclass, field
from typing import Any


def _flag(default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Engine flags as typed; "auto" and None are turned into values, with reasons, by `octavo.config.resolve`.

    Sizes may be integers or text with a unit (`8k`, `48GiB`).
    """

    model: str | None = _flag(None, "model name of a source, folder, file or hub id; default: the source that offers itself as default")
    revision: str | None = _flag(None, "branch, tag or commit of a hub repository")
    load_format: str = _flag("auto", "auto, safetensors, gguf or dummy (random weights)")
    dtype: str = _flag("auto", "auto, float32, bfloat16 or float16: weights and activations")
    max_model_len: int | str | None = _flag(None, "longest prompt plus output in tokens; default: the model's own, as far as memory allows")
    generation_config: str = _flag("auto", "auto: defaults of sampling from the model; none: Octavo's own")
    chat_template: str | None = _flag(None, "file with a chat template (Jinja), instead of the model's")
    block_size: int | str = _flag("auto", "tokens a KV block holds, a multiple of 8")
    num_blocks: int | None = _flag(None, "KV blocks, instead of sizing the pool by memory")
    kv_cache_memory_bytes: int | str | None = _flag(None, "size of the KV pool, such as 4GiB")
    memory_utilization: float | None = _flag(None, "share of the device's memory for weights, activations and KV together, in (0, 1]")
    kv_cache_dtype: str = _flag("auto", "auto (as dtype), float32, bfloat16 or float16")
    enable_prefix_caching: bool = _flag(True, "share KV blocks of equal prefixes")
    max_num_seqs: int | str = _flag("auto", "requests that run in one step at most")
    max_num_batched_tokens: int | str = _flag("auto", "token budget of one step")
    long_prefill_token_threshold: int = _flag(0, "most tokens of one prompt in a step; 0: no limit but the budget")
    scheduling_policy: str = _flag("fcfs", "fcfs, priority or a plugin's")
    attention_backend: str = _flag("auto", "auto, cpu, sdpa or a plugin's")
    cpu_isa: str = _flag("auto", "auto, portable, avx2, avx512, avx512_bf16, avx512_fp16 or amx: instructions of the C++ kernels on a CPU")
    runner: str = _flag("auto", "auto, torch or a plugin's")
    executor: str = _flag("auto", "auto, inprocess, multiprocess (the model in a process of its own) or a plugin's")
    sampler: str = _flag("auto", "auto, default or a plugin's")
    optimization_level: int | str = _flag("auto", "auto, 0 (as written), 1 (compiled), 2 (decode steps as graphs) or 3 (searches kernels)")
    enforce_eager: bool = _flag(False, "neither compile nor use graphs")
    compile_artifacts: str | None = _flag(None, "file of `octavo compile` to start from")
    compile_in_background: bool = _flag(False, "serve as written until compiling is done")
    max_logprobs: int = _flag(20, "most alternatives a token whose log-probabilities a request may ask for")
    seed: int | None = _flag(None, "seed of requests that bring none; default: drawn anew at each start")
