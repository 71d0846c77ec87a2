"""`octavo plan`: what a model will take of memory, and how many requests fit, without loading it."""

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli.options import EngineFlags, with_engine_flags
from octavo.errors import ConfigurationError

if TYPE_CHECKING:
    from octavo.config.engine import EngineConfig
    from octavo.config.machine import Machine
    from octavo.config.options import EngineOptions
    from octavo.plan.memory_plan import DeviceMemory, MemoryPlan

_ANY_SIZE = 1 << 60


@with_engine_flags
def plan_command(
    engine: EngineFlags,
    target: Annotated[
        str | None, typer.Argument(metavar="MODEL|config.json", show_default=False, help="as --model, or the config.json of a model")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="memory of each GPU, such as 80GiB; else that of this CPU", metavar="SIZE")] = None,
    tokens: Annotated[str, typer.Option(help="lengths of requests (prompt and output) with commas", metavar="TOKENS")] = "2000,32000",
    tensor_parallel_size: Annotated[int, typer.Option(help="GPUs that share the model", min=1)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Plan memory: bytes a token, size of the KV cache, and how many requests fit.

    Nothing of the weights is read. With the same flags these are the numbers that the engine logs when it starts.
    --kv-cache-dtype also takes fp8 here.
    """
    from octavo.config.machine import read_machine
    from octavo.config.units import parse_count
    from octavo.env import read_environment
    from octavo.log import configure_logging
    from octavo.plan.memory_plan import plan_memory
    from octavo.plan.unloaded import resolve_unloaded
    from octavo.plugins.manager import load_plugins

    configure_logging("debug" if engine.debug else "warning")
    options = replace(engine.options, model=target or engine.options.model)
    lengths = [parse_count(part, name="tokens") for part in tokens.split(",")]
    if min(lengths) < 1:
        raise ConfigurationError(f"tokens {tokens!r} has a length below 1: give lengths such as 2000,32000")
    environment = read_environment()
    machine = read_machine(environment=environment)
    if memory is not None:
        machine = replace(machine, has_cuda=True)
    device = _device(options, machine, memory)
    registries = load_plugins(allow=engine.plugins_allow, block=engine.plugins_block).registries
    config = resolve_unloaded(options, machine, registries, offline=environment.hub_offline)
    plan = plan_memory(config, device, tokens=lengths, tensor_parallel_size=tensor_parallel_size)
    name = config.load.files.name
    if as_json:
        typer.echo(json.dumps({"model": name, "architecture": config.model.architecture, **asdict(plan)}, indent=2))
    else:
        _print(name, config, plan)


def _device(options: "EngineOptions", machine: "Machine", memory: str | None) -> "DeviceMemory":
    """The device to plan for; a pool whose size is given is planned for wherever it may fit."""
    from octavo.config.checks import check_bytes
    from octavo.plan.memory_plan import DeviceMemory

    is_fixed = options.kv_cache_memory_bytes is not None or options.num_blocks is not None
    if memory is not None and is_fixed:
        raise ConfigurationError(f"memory {memory!r} sizes the KV pool, and so do kv_cache_memory_bytes and num_blocks: give one of them")
    if memory is not None or is_fixed:
        size = _ANY_SIZE if memory is None else check_bytes("memory", memory)
        return DeviceMemory(total=size, available=size, on_cpu=not machine.has_cuda)
    if machine.has_cuda:
        raise ConfigurationError("the memory of the GPU is not known without loading the model: give --memory, such as --memory 80GiB")
    return DeviceMemory(total=machine.total_memory, available=machine.available_memory, on_cpu=True)


def _print(name: str, config: "EngineConfig", plan: "MemoryPlan") -> None:
    from octavo.config.units import format_bytes

    model, ranks = config.model, plan.tensor_parallel_size
    rank = f", on each of {ranks} devices" if ranks > 1 else ""
    windows = plan.bytes_per_token != plan.bytes_per_token_beyond_windows
    beyond = f", {plan.bytes_per_token_beyond_windows:,} beyond the window of {model.sliding_window:,} tokens" if windows else ""
    rows = [
        ("model", f"{name} ({model.architecture}): {model.num_layers} layers, {model.num_kv_heads} KV heads of {model.head_size}"),
        ("parameters", f"{plan.parameters:,}"),
        ("weights", f"{format_bytes(plan.weight_bytes)} in {plan.dtype}{rank}"),
        ("activations", f"{format_bytes(plan.activation_bytes)} at most"),
        ("KV cache", f"{format_bytes(plan.num_blocks * plan.bytes_per_block)} in {plan.kv_cache_dtype}{rank}"),
        ("bytes a token", f"{plan.bytes_per_token:,}{beyond}"),
        ("blocks", f"{plan.num_blocks:,} of {plan.block_size} tokens, {format_bytes(plan.bytes_per_block)}"),
    ]
    for key, value in rows:
        typer.echo(f"{key:16} {value}")
    typer.echo(f"\nKV cache size: {plan.kv_cache_tokens:,} tokens")
    typer.echo(f"Maximum concurrency for {plan.max_model_len:,} tokens per request: {plan.max_concurrency:.2f}x")
    typer.echo(f"\n{'tokens':>12} {'blocks':>9} {'KV memory':>12} {'requests':>10}")
    for request in plan.requests:
        note = "" if request.fits_context else f"  (over the context of {plan.max_model_len:,} tokens)"
        typer.echo(f"{request.tokens:12,} {request.blocks:9,} {format_bytes(request.kv_bytes):>12} {request.requests:10,}{note}")
