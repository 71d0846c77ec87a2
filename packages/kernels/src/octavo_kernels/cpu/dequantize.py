"""GGML's block formats, decoded in C++."""

import ctypes

import torch
from torch import Tensor

from octavo_kernels.cpu.abi import BLOCK_FORMATS, Blocks, check_status


def dequantize(library: ctypes.CDLL, blocks: Tensor, format_name: str) -> Tensor:
    """Decode blocks on the thread that calls.

    Args:
        library: from `load_library`.
        blocks: uint8 [B, bytes of a block], contiguous.
        format_name: a key of `BLOCK_FORMATS`.

    Returns:
        float32 [B, values of a block].
    """
    known = BLOCK_FORMATS[format_name]
    assert blocks.dtype == torch.uint8
    assert blocks.is_contiguous()
    assert blocks.shape[1] == known.num_bytes
    out = torch.empty(len(blocks), known.num_values, dtype=torch.float32, device="cpu")
    task = Blocks(blocks.data_ptr(), out.data_ptr(), len(blocks), known.number)
    check_status(library.octavo_dequantize(ctypes.byref(task)), "dequantize")
    return out
