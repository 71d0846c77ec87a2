"""The C interface of the library, mirrored from `csrc/abi.h`; strides are in elements."""

import ctypes
from ctypes import c_float, c_int32, c_int64, c_void_p
from typing import NamedTuple

import torch

ABI_VERSION = 7
TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""The element types that the library knows, with their numbers."""
ACTIVATIONS = {"silu": 0, "gelu_tanh": 1}
"""The activations that the library knows, with their numbers."""


class BlockFormat(NamedTuple):
    """The number of one of GGML's block formats, and how many values and bytes a block has."""

    number: int
    num_values: int
    num_bytes: int


BLOCK_FORMATS = {
    "Q4_0": BlockFormat(0, 32, 18),
    "Q4_1": BlockFormat(1, 32, 20),
    "Q5_0": BlockFormat(2, 32, 22),
    "Q5_1": BlockFormat(3, 32, 24),
    "Q8_0": BlockFormat(4, 32, 34),
    "Q2_K": BlockFormat(5, 256, 84),
    "Q3_K": BlockFormat(6, 256, 110),
    "Q4_K": BlockFormat(7, 256, 144),
    "Q5_K": BlockFormat(8, 256, 176),
    "Q6_K": BlockFormat(9, 256, 210),
}
"""By name."""


class Cache(ctypes.Structure):
    """`OctavoCache`."""

    _fields_ = (
        ("data", c_void_p),
        ("block_stride", c_int64),
        ("value_offset", c_int64),
        ("head_stride", c_int64),
        ("num_blocks", c_int32),
        ("num_kv_heads", c_int32),
        ("block_size", c_int32),
        ("head_size", c_int32),
    )


class Heads(ctypes.Structure):
    """`OctavoHeads`."""

    _fields_ = (("data", c_void_p), ("row_stride", c_int64), ("head_stride", c_int64))


class Attention(ctypes.Structure):
    """`OctavoAttention`."""

    _fields_ = (
        ("cache", Cache),
        ("query", Heads),
        ("key", Heads),
        ("value", Heads),
        ("out", Heads),
        ("slots", c_void_p),
        ("query_start", c_void_p),
        ("seq_lens", c_void_p),
        ("block_table", c_void_p),
        ("block_table_stride", c_int64),
        ("runs", c_void_p),
        ("members", c_void_p),
        ("num_runs", c_int32),
        ("num_rows", c_int32),
        ("num_requests", c_int32),
        ("num_heads", c_int32),
        ("window", c_int32),
        ("scale", c_float),
        ("soft_cap", c_float),
        ("type", c_int32),
        ("isa", c_int32),
        ("num_threads", c_int32),
    )


class Sharing(ctypes.Structure):
    """`OctavoSharing`."""

    _fields_ = (
        ("query_start", c_void_p),
        ("seq_lens", c_void_p),
        ("block_table", c_void_p),
        ("block_table_stride", c_int64),
        ("runs", c_void_p),
        ("members", c_void_p),
        ("num_runs", c_void_p),
        ("max_members", c_int32),
        ("num_requests", c_int32),
        ("block_size", c_int32),
    )


class Rotation(ctypes.Structure):
    """`OctavoRotation`."""

    _fields_ = (
        ("query", Heads),
        ("key", Heads),
        ("query_out", Heads),
        ("key_out", Heads),
        ("positions", c_void_p),
        ("table", c_void_p),
        ("num_positions", c_int64),
        ("rotary_size", c_int32),
        ("num_rows", c_int32),
        ("num_heads", c_int32),
        ("num_kv_heads", c_int32),
        ("head_size", c_int32),
        ("type", c_int32),
        ("isa", c_int32),
        ("num_threads", c_int32),
    )


class RmsNorm(ctypes.Structure):
    """`OctavoRmsNorm`."""

    _fields_ = (
        ("x", Heads),
        ("residual", c_void_p),
        ("total", c_void_p),
        ("weight", c_void_p),
        ("out", c_void_p),
        ("num_rows", c_int64),
        ("num_heads", c_int32),
        ("width", c_int32),
        ("eps", c_float),
        ("offset", c_float),
        ("type", c_int32),
        ("isa", c_int32),
        ("num_threads", c_int32),
    )


class Gate(ctypes.Structure):
    """`OctavoGate`."""

    _fields_ = (
        ("gate_and_up", c_void_p),
        ("out", c_void_p),
        ("row_stride", c_int64),
        ("num_rows", c_int64),
        ("width", c_int32),
        ("activation", c_int32),
        ("type", c_int32),
        ("isa", c_int32),
        ("num_threads", c_int32),
    )


class Blocks(ctypes.Structure):
    """`OctavoBlocks`."""

    _fields_ = (("blocks", c_void_p), ("out", c_void_p), ("num_blocks", c_int64), ("format", c_int32))


class Packing(ctypes.Structure):
    """`OctavoPacking`."""

    _fields_ = (
        ("weight", c_void_p),
        ("packed", c_void_p),
        ("row_stride", c_int64),
        ("num_inputs", c_int64),
        ("num_outputs", c_int64),
        ("gated", c_int32),
        ("type", c_int32),
        ("isa", c_int32),
        ("num_threads", c_int32),
    )


class Linear(ctypes.Structure):
    """`OctavoLinear`."""

    _fields_ = (
        ("x", c_void_p),
        ("packed", c_void_p),
        ("bias", c_void_p),
        ("residual", c_void_p),
        ("out", c_void_p),
        ("largest", c_void_p),
        ("x_stride", c_int64),
        ("residual_stride", c_int64),
        ("out_stride", c_int64),
        ("num_rows", c_int64),
        ("num_inputs", c_int64),
        ("num_outputs", c_int64),
        ("gated", c_int32),
        ("activation", c_int32),
        ("type", c_int32),
        ("isa", c_int32),
        ("num_threads", c_int32),
    )


class Copy(ctypes.Structure):
    """`OctavoCopy`."""

    _fields_ = (
        ("source", c_void_p),
        ("target", c_void_p),
        ("source_stride", c_int64),
        ("target_stride", c_int64),
        ("row_bytes", c_int64),
        ("num_rows", c_int64),
        ("num_threads", c_int32),
    )


class Call(ctypes.Structure):
    """`OctavoCall`."""

    _fields_ = (("task", c_void_p), ("kind", c_int32), ("rows_a_token", c_int32), ("group", c_int32))


class Requests(ctypes.Structure):
    """`OctavoRequests`."""

    _fields_ = (
        ("slots", c_void_p),
        ("query_start", c_void_p),
        ("seq_lens", c_void_p),
        ("block_table", c_void_p),
        ("block_table_stride", c_int64),
        ("runs", c_void_p),
        ("members", c_void_p),
        ("num_runs", c_int32),
        ("num_requests", c_int32),
    )


class Program(ctypes.Structure):
    """`OctavoProgram`."""

    _fields_ = (("calls", c_void_p), ("groups", c_void_p), ("num_calls", c_int64), ("num_tokens", c_int64))


KINDS: dict[type[ctypes.Structure], int] = {Attention: 0, Rotation: 1, RmsNorm: 2, Gate: 3, Linear: 4, Copy: 5}
"""The tasks that calls of a program may have, with their numbers."""

FUNCTIONS = {
    "octavo_copy": Copy,
    "octavo_run": Program,
    "octavo_attend": Attention,
    "octavo_rotate": Rotation,
    "octavo_rms_norm": RmsNorm,
    "octavo_gate": Gate,
    "octavo_dequantize": Blocks,
    "octavo_pack_linear": Packing,
    "octavo_linear": Linear,
}
"""The functions that take a task, with its structure; each returns a status."""


def describe_cache(cache: torch.Tensor) -> Cache:
    """A layer's cache [B, 2, G, S, D] for the library; [S, D] of one head must be contiguous."""
    num_blocks, two, num_kv_heads, block_size, head_size = cache.shape
    block_stride, value_offset, head_stride, token_stride, element_stride = cache.stride()
    assert two == 2
    assert element_stride == 1
    assert token_stride == head_size or block_size == 1
    return Cache(cache.data_ptr(), block_stride, value_offset, head_stride, num_blocks, num_kv_heads, block_size, head_size)


def describe_heads(heads: torch.Tensor) -> Heads:
    """Heads [N, H, D] for the library; the last dimension must be contiguous."""
    row_stride, head_stride, element_stride = heads.stride()
    assert element_stride == 1 or heads.shape[2] == 1
    return Heads(heads.data_ptr(), row_stride, head_stride)


def check_status(status: int, operation: str) -> None:
    """Raise what a status other than success stands for."""
    if status == 0:
        return
    if status == 2:
        raise IndexError(f"{operation}: a block, slot, row or position lies outside its tensor")
    if status == 3:
        raise MemoryError(f"{operation}: no memory for intermediate results")
    raise AssertionError(f"{operation}: the library refused its arguments (status {status})")
