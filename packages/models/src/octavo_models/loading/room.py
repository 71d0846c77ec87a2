"""Whether memory suffices, found out before the system ends the process over it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from octavo.config.machine import read_machine
from octavo.config.units import format_bytes
from octavo.errors import ConfigurationError

_SIGNS = ("allocate memory", "calculation overflowed")
"""What torch says of a tensor on a CPU that is too large; on a GPU there is an exception for it."""


@contextmanager
def room_for(what: str, way_out: str) -> Iterator[None]:
    """Turn a failed allocation inside into a `ConfigurationError`.

    Args:
        what: needs the memory, such as "the weights".
        way_out: what to change.
    """
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        reason = str(error).splitlines()[0] if str(error) else "out of memory"
        raise ConfigurationError(f"there is no memory for {what} ({reason}): {way_out}") from error


def check_room(model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Refuse weights that are larger than what a CPU's memory can take now, before they are written. A GPU refuses by itself.

    Raises `ConfigurationError` with both numbers.
    """
    if device.type != "cpu":
        return
    needed = sum(parameter.nbytes for parameter in model.parameters())
    machine = read_machine()
    if needed > machine.available_memory:
        raise ConfigurationError(
            f"the weights take {format_bytes(needed)} in {str(dtype).removeprefix('torch.')}, and {format_bytes(machine.available_memory)} "
            f"of {format_bytes(machine.total_memory)} are available: choose a narrower dtype or a smaller model, or free memory"
        )


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return any(sign in str(error) for sign in _SIGNS)
