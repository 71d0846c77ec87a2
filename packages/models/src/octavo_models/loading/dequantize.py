"""GGML's block formats -> floating point.

A row is a sequence of blocks, each with its own scale. Where the C++ library is installed it decodes them all. Elsewhere the formats of
32 values are decoded here, some ten times faster than by numpy, and the 256-value "K" formats by the `gguf` package. Layouts:
https://github.com/ggml-org/ggml, ggml-common.h.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from octavo.errors import CheckpointError
from octavo_kernels.cpu.abi import BLOCK_FORMATS
from octavo_kernels.cpu.dequantize import dequantize as decode_native
from octavo_kernels.native import load_native

_PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_CHUNK_VALUES = 1 << 18
"""Values decoded at a time: their float32 copy stays in the second-level cache."""


def check_supported(name: str, type_name: str) -> None:
    """Raises `CheckpointError` naming the tensor and its type where that cannot be decoded."""
    if type_name not in _PLAIN and type_name not in BLOCK_FORMATS:
        known = ", ".join([*_PLAIN, *BLOCK_FORMATS])
        raise CheckpointError(f"tensor {name!r} is stored as {type_name}, which cannot be loaded; there are {known}")


def dequantize(raw: Tensor, type_name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Decode one tensor.

    Args:
        raw: its bytes, uint8, contiguous.
        type_name: GGML's name of the format, one that `check_supported` lets pass.
        shape: of the result; the last dimension is a multiple of the format's block.
        dtype: of the result. Values are computed in float32 and rounded once.
    """
    if type_name in _PLAIN:
        return raw.view(_PLAIN[type_name]).view(shape).to(dtype)
    decode, size = _decoder(type_name), BLOCK_FORMATS[type_name].num_values
    out = torch.empty(shape, dtype=dtype)
    values = out.view(-1, size)
    blocks = raw.view(len(values), -1)
    step = _CHUNK_VALUES // size
    for start in range(0, len(blocks), step):
        values[start : start + step].copy_(decode(blocks[start : start + step]))
    return out


def _decoder(type_name: str) -> Callable[[Tensor], Tensor]:
    """From blocks uint8 [B, bytes] to float32 [B, values]."""
    native = load_native()
    if native is not None:
        return partial(decode_native, native.library, format_name=type_name)
    return _SMALL_BLOCKS[type_name] if type_name in _SMALL_BLOCKS else _k_format(type_name)


def _k_format(type_name: str) -> Callable[[Tensor], Tensor]:
    """Decoder of blocks uint8 [blocks, bytes] -> float32 [blocks, 256]."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize as decode

    kind = GGMLQuantizationType[type_name]
    return lambda blocks: torch.from_numpy(decode(blocks.numpy(), kind))


def _halves(blocks: Tensor, start: int, count: int) -> tuple[Tensor, ...]:
    """`count` float16 numbers at byte `start` of each block, as float32 [blocks, 1]."""
    return torch.split(blocks[:, start : start + 2 * count].contiguous().view(torch.float16).float(), 1, dim=1)


def _nibbles(packed: Tensor) -> Tensor:
    """uint8 [blocks, 16] -> float32 [blocks, 32]: low halves of all bytes, then high halves."""
    values = torch.empty(len(packed), 32)
    values[:, :16].copy_(packed & 15)
    values[:, 16:].copy_(packed >> 4)
    return values


def _fifth_bits(packed: Tensor) -> Tensor:
    """uint8 [blocks, 4] -> float32 [blocks, 32]: 16 where value i has bit i set."""
    bits = (packed.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8)) & 1
    return bits.flatten(1).float().mul_(16)


def _q4_0(blocks: Tensor) -> Tensor:
    (scale,) = _halves(blocks, 0, 1)
    return _nibbles(blocks[:, 2:]).sub_(8).mul_(scale)


def _q4_1(blocks: Tensor) -> Tensor:
    scale, minimum = _halves(blocks, 0, 2)
    return _nibbles(blocks[:, 4:]).mul_(scale).add_(minimum)


def _q5_0(blocks: Tensor) -> Tensor:
    (scale,) = _halves(blocks, 0, 1)
    return _nibbles(blocks[:, 6:]).add_(_fifth_bits(blocks[:, 2:6])).sub_(16).mul_(scale)


def _q5_1(blocks: Tensor) -> Tensor:
    scale, minimum = _halves(blocks, 0, 2)
    return _nibbles(blocks[:, 8:]).add_(_fifth_bits(blocks[:, 4:8])).mul_(scale).add_(minimum)


def _q8_0(blocks: Tensor) -> Tensor:
    (scale,) = _halves(blocks, 0, 1)
    return blocks[:, 2:].view(torch.int8).float().mul_(scale)


_SMALL_BLOCKS: dict[str, Callable[[Tensor], Tensor]] = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0}
