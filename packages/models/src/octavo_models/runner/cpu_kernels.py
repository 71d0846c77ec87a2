"""Which C++ kernels a runner uses on a CPU."""

import torch

from octavo.config.engine import Decision
from octavo.config.machine import read_machine
from octavo.errors import ConfigurationError
from octavo_kernels.cpu.abi import TYPES
from octavo_kernels.cpu.library import REMEDY
from octavo_kernels.native import load_native, use_isa
from octavo_models.layers.linear import LinearMethod
from octavo_models.layers.packed_linear import PackedLinear
from octavo_models.runner.choices import AUTO


def choose_cpu_isa(requested: str, device: torch.device) -> tuple[Decision, ...]:
    """The instruction set that the ops of this process run on from now on; nothing where none of them run.

    Raises `ConfigurationError` where this CPU lacks the one that is requested, or there are no kernels.
    """
    if device.type != "cpu" or load_native() is None:
        if requested != AUTO:
            reason = f"the device is {device.type}" if device.type != "cpu" else f"the C++ library is not installed: {REMEDY}"
            raise ConfigurationError(f"cpu_isa {requested!r} cannot be used: {reason}; leave it at auto")
        return ()
    try:
        isa = use_isa(None if requested == AUTO else requested)
    except ValueError as error:
        raise ConfigurationError(f"cpu_isa: {error}, or leave it at auto") from error
    reason = "the fastest that this CPU has" if requested == AUTO else "requested"
    return (Decision(name="cpu_isa", value=isa.name.lower(), reason=reason),)


def describe_cpu(device: torch.device) -> tuple[Decision, ...]:
    """How the C++ kernels use cores and memory; nothing where they are not there."""
    if device.type != "cpu" or load_native() is None:
        return ()
    large_pages = read_machine().large_pages
    are_large = large_pages in {"always", "madvise"}
    pages = "large" if are_large else "small"
    reason = f"transparent_hugepage is {large_pages!r}" + ("" if are_large else ": weights are read a fifth faster with madvise")
    return (
        Decision(name="affinity", value="none", reason="the system places threads; start with taskset to keep them on some CPUs"),
        Decision(name="weight_pages", value=pages, reason=reason),
    )


def choose_linear_method(device: torch.device, dtype: torch.dtype) -> tuple[LinearMethod | None, Decision]:
    """What takes over plain weights once they are loaded, None for torch's own; comes after `choose_cpu_isa`."""
    native = load_native() if device.type == "cpu" else None
    if native is not None and dtype in TYPES:
        return PackedLinear(native.isa), Decision(name="linear_method", value="packed", reason="C++ kernels on a CPU")
    if device.type != "cpu":
        reason = f"the device is {device.type}"
    elif native is None:
        reason = f"the C++ library is not installed: {REMEDY}"
    else:
        reason = f"the C++ kernels do not know {dtype}"
    return None, Decision(name="linear_method", value="torch", reason=reason)
