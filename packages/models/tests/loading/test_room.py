"""Memory that is not there is a refusal with numbers, whatever torch and the system call it."""

import errno
from dataclasses import replace

import pytest
import torch
from torch import nn

from octavo.config.machine import read_machine
from octavo.errors import ConfigurationError
from octavo_models.loading import room
from octavo_models.loading.room import check_room, room_for

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB\nmore"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_failed_allocations_say_what_to_change(error: Exception) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no memory for the pool \(.+\): lower it$"), room_for("the pool", "lower it"):
        raise error


@pytest.mark.parametrize("shape", [(2**62, 2**62), (2**50,)])
def test_torch_says_what_is_listened_for(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError), room_for("the weights", "take others"):
        torch.empty(shape)


@pytest.mark.parametrize("error", [RuntimeError("a kernel failed"), OSError(errno.ENOENT, "no such file"), ValueError("x")])
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, room_for("the pool", "lower it"):
        raise error
    assert caught.value is error


def test_weights_that_fit_pass_and_larger_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(1024, 1024, bias=False)
    check_room(model, torch.float32, CPU)
    small = replace(read_machine(), total_memory=8 << 20, available_memory=(4 << 20) - 1)
    monkeypatch.setattr(room, "read_machine", lambda: small)
    with pytest.raises(ConfigurationError, match=r"weights take 4\.00 MiB in float32, and 4\.00 MiB of 8\.00 MiB are available"):
        check_room(model, torch.float32, CPU)
    check_room(model, torch.float32, torch.device("meta"))
