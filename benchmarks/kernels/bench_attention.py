"""The attention backends "cpu" and "sdpa" on one layer: `python benchmarks/kernels/bench_attention.py`.

Pages lie as the engine has them, those of many layers side by side and blocks in random order; each call takes another layer, so that
what a decode step reads is in no cache.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

import torch
from clock import parse_arguments, print_row, shortest

from octavo_kernels.attention import AttentionBackend, AttentionSpec, AttentionStep
from octavo_kernels.attention.cpu import CpuAttention
from octavo_kernels.attention.sdpa import SdpaAttention

SPEC = AttentionSpec(num_heads=9, num_kv_heads=3, head_size=64, scale=0.125)
BLOCK_SIZE, NUM_LAYERS = 16, 30
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Mix:
    """Rows and tokens of each request, and how many of these all have in common, in the same blocks."""

    name: str
    rows: list[int]
    lengths: list[int]
    num_shared: int = 0


MIXES = (
    Mix("decode 1 x 192", [1], [192]),
    Mix("decode 1 x 8192", [1], [8192]),
    Mix("decode 64 x 192", [1] * 64, [192] * 64),
    Mix("decode 8 x 1024", [1] * 8, [1024] * 8),
    Mix("decode 32 x 1088", [1] * 32, [1088] * 32),
    Mix("of which 1024 shared", [1] * 32, [1088] * 32, num_shared=1024),
    Mix("prefill 8 x 128", [128] * 8, [128] * 8),
    Mix("prefill 1024", [1024], [1024]),
    Mix("chunk 512 after 3584", [512], [4096]),
    Mix("mixed", [256, *[1] * 32], [512, *[192] * 32]),
)


def make_step(mix: Mix) -> tuple[AttentionStep, int]:
    """A step of the mix, and how many blocks there are."""
    counts = [-(-length // BLOCK_SIZE) for length in mix.lengths]
    order = (torch.randperm(sum(counts)) + 1).to(torch.int32)
    tables = order.split(counts)
    table = torch.nn.utils.rnn.pad_sequence(list(tables), batch_first=True)
    table[:, : mix.num_shared // BLOCK_SIZE] = table[0, : mix.num_shared // BLOCK_SIZE].clone()
    slots = [
        blocks.long().repeat_interleave(BLOCK_SIZE)[length - rows : length] * BLOCK_SIZE + torch.arange(length - rows, length) % BLOCK_SIZE
        for blocks, rows, length in zip(tables, mix.rows, mix.lengths, strict=True)
    ]
    step = AttentionStep(
        query_start=torch.tensor([0, *mix.rows]).cumsum(0).to(torch.int32),
        seq_lens=torch.tensor(mix.lengths, dtype=torch.int32),
        block_table=table,
        slot_mapping=torch.cat(slots),
        max_query_len=max(mix.rows),
        max_seq_len=max(mix.lengths),
    )
    return step, sum(counts) + 1


def layer_by_layer(backend: AttentionBackend, step: AttentionStep, pool: torch.Tensor) -> Callable[[], None]:
    """One layer a call."""
    num_rows = step.slot_mapping.shape[0]
    fused = torch.randn(num_rows, SPEC.num_heads + 2 * SPEC.num_kv_heads, SPEC.head_size).to(pool.dtype)
    query, key, value = fused.split((SPEC.num_heads, SPEC.num_kv_heads, SPEC.num_kv_heads), dim=1)
    out, plan, layers = torch.empty(query.shape, dtype=pool.dtype), backend.plan(step), cycle(pool.unbind(1))
    return lambda: backend.run(SPEC, plan, query, key, value, next(layers), out)


def main() -> None:
    arguments = parse_arguments(__doc__)
    for mix in MIXES:
        step, num_blocks = make_step(mix)
        pool = torch.randn(num_blocks, NUM_LAYERS, 2, SPEC.num_kv_heads, BLOCK_SIZE, SPEC.head_size).to(arguments.dtype)
        times = {
            backend.name: shortest(layer_by_layer(backend, step, pool), arguments.seconds)
            for backend in (kind(block_size=BLOCK_SIZE, dtype=arguments.dtype, device=CPU) for kind in (CpuAttention, SdpaAttention))
        }
        print_row(mix.name, **times)


if __name__ == "__main__":
    main()
