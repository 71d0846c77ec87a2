"""Random weights of the right shapes, for models whose weight files are not there."""

import math

import torch
from torch import Tensor, nn

_TAPE_VALUES = 1_000_003
"""A prime: rows of any usual width, cut from a tape of this length, differ from each other."""


def fill_with_noise(model: nn.Module, seed: int) -> None:
    """Give every parameter random content with which activations stay finite; the same for the same model and seed.

    Matrices [..., O, I] get variance 1 / I, so that outputs are as large as inputs; scales of norms are 1, biases small, and
    parameters that are not floating point get random bytes. The numbers come from one short tape that is copied over and over:
    as fast as memory is written, and random enough for shapes, speed and memory to be those of the real model.
    """
    tape = _Tape(seed)
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point():
            tape.copy_bytes(parameter.data)
        elif parameter.ndim > 1:
            tape.copy(parameter.data, scale=1 / math.sqrt(parameter.shape[-1]))
        elif name.endswith("bias"):
            tape.copy(parameter.data, scale=0.01)
        else:
            parameter.data.fill_(1.0)


class _Tape:
    """Uniform numbers of mean 0 and variance 1, read round and round."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed % 2**63)
        self._values = torch.rand(_TAPE_VALUES, generator=generator).sub_(0.5).mul_(math.sqrt(12))
        self._bytes = torch.randint(0, 256, (_TAPE_VALUES,), dtype=torch.uint8, generator=generator)
        self._position = 0

    def copy(self, out: Tensor, *, scale: float) -> None:
        self._repeat(out.view(-1), self._values.mul(scale).to(out.device, out.dtype))

    def copy_bytes(self, out: Tensor) -> None:
        self._repeat(out.view(-1).view(torch.uint8), self._bytes.to(out.device))

    def _repeat(self, out: Tensor, pattern: Tensor) -> None:
        filled = 0
        while filled < len(out):
            part = pattern[self._position : self._position + len(out) - filled]
            out[filled : filled + len(part)] = part
            filled += len(part)
            self._position = (self._position + len(part)) % _TAPE_VALUES
