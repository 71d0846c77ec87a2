"""Storing a step's keys and values in the paged cache and attending, in C++."""

import ctypes
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionSpec, AttentionStep
from octavo_kernels.cpu.abi import TYPES, Attention, Sharing, check_status, describe_cache, describe_heads
from octavo_kernels.cpu.calls import submit
from octavo_kernels.cpu.isa import Isa

MAX_HEAD_SIZE = 256
SPLIT_KEYS = 256
"""Keys of a sequence that the library takes together at most; so many are shared or not."""


_NONE = torch.empty(0, dtype=torch.int32)


@dataclass(frozen=True, kw_only=True)
class AttendPlan:
    """The index tensors of a step, contiguous and on the host: query_start int32 [R + 1], seq_lens int32 [R], block_table int32 [R, T],
    slots int64 [N]; and which requests read the same keys: `num_runs` rows of runs int32 [., 3], and members int32 [.]."""

    query_start: Tensor
    seq_lens: Tensor
    block_table: Tensor
    slots: Tensor
    runs: Tensor = _NONE
    members: Tensor = _NONE
    num_runs: int = 0


def plan_attend(library: ctypes.CDLL, step: AttentionStep, *, block_size: int) -> AttendPlan:
    """What the library takes of a step. Raises IndexError where one of several requests is longer than its block table."""
    assert step.query_start.dtype == step.seq_lens.dtype == step.block_table.dtype == torch.int32
    assert step.slot_mapping.dtype == torch.int64
    assert step.query_start.shape[0] == step.seq_lens.shape[0] + 1 == step.block_table.shape[0] + 1
    num_requests = step.seq_lens.shape[0]
    plan = AttendPlan(
        query_start=step.query_start.contiguous(),
        seq_lens=step.seq_lens.contiguous(),
        block_table=step.block_table.contiguous(),
        slots=step.slot_mapping.contiguous(),
    )
    max_members = num_requests * (step.max_seq_len // SPLIT_KEYS)
    if num_requests < 2 or max_members == 0:
        return plan
    runs, members = torch.empty(max_members // 2, 3, dtype=torch.int32), torch.empty(max_members, dtype=torch.int32)
    num_runs = ctypes.c_int32()
    task = Sharing(
        plan.query_start.data_ptr(),
        plan.seq_lens.data_ptr(),
        plan.block_table.data_ptr(),
        plan.block_table.shape[1],
        runs.data_ptr(),
        members.data_ptr(),
        ctypes.addressof(num_runs),
        max_members,
        num_requests,
        block_size,
    )
    check_status(library.octavo_find_shared(ctypes.byref(task)), "shared prefixes")
    return replace(plan, runs=runs, members=members, num_runs=num_runs.value)


def attend(
    library: ctypes.CDLL,
    spec: AttentionSpec,
    plan: AttendPlan,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cache: Tensor,
    out: Tensor,
    *,
    isa: Isa,
) -> None:
    """Write row i of key and value to slot `slots[i]` (-1 writes nothing), then attend every row, with sums in float32.

    The order of a row's sums depends on its own context alone: not on the other rows, chunks, the number of threads or block ids.
    Keys in blocks that several requests share are read once for all of their single rows.
    Rows of nobody, and of requests of length 0, put out zeros.

    Args:
        library: from `load_library`.
        spec: of the layer; D a multiple of 8 up to 256.
        plan: of the step. Raises IndexError where a row, slot or block that is needed does not exist.
        query: [N, H, D]; key, value: [N, G, D]; the last dimension contiguous, all of the cache's type.
        cache: [B, 2, G, S, D], keys first, strided over its blocks; written in place.
        out: [N, H, D], the last dimension contiguous; written in place.
        isa: one that this host runs.
    """
    assert query.dtype == key.dtype == value.dtype == cache.dtype == out.dtype
    assert query.shape == out.shape
    assert key.shape == value.shape
    assert query.shape[0] == key.shape[0] == plan.slots.shape[0]
    assert key.shape[1:] == (cache.shape[2], cache.shape[4])
    assert query.shape[2] == cache.shape[4]
    task = Attention(
        describe_cache(cache),
        describe_heads(query),
        describe_heads(key),
        describe_heads(value),
        describe_heads(out),
        plan.slots.data_ptr(),
        plan.query_start.data_ptr(),
        plan.seq_lens.data_ptr(),
        plan.block_table.data_ptr(),
        plan.block_table.shape[1],
        plan.runs.data_ptr(),
        plan.members.data_ptr(),
        plan.num_runs,
        query.shape[0],
        plan.seq_lens.shape[0],
        query.shape[1],
        spec.sliding_window or 0,
        spec.scale,
        spec.soft_cap or 0.0,
        TYPES[query.dtype],
        isa,
        torch.get_num_threads(),
    )
    submit(library.octavo_attend, task, "attention")
