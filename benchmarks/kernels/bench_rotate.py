"""Rotary embedding in C++ beside its reference: `python benchmarks/kernels/bench_rotate.py`."""

import torch
from clock import parse_arguments, print_row, shortest
from torch import Tensor

from octavo_kernels import ops
from octavo_kernels.reference import rope


def rotate_by_reference(query: Tensor, key: Tensor, positions: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    return rope.rotate(query, positions, table), rope.rotate(key, positions, table)


def main() -> None:
    arguments = parse_arguments(__doc__)
    for heads, kv_heads, size in ((9, 3, 64), (32, 8, 128)):
        table = torch.randn(4096, size)
        for rows in (1, 16, 64, 512):
            fused = torch.randn(rows, heads + 2 * kv_heads, size).to(arguments.dtype)
            task = fused[:, :heads], fused[:, heads : heads + kv_heads], torch.randint(0, 4096, (rows,)), table
            print_row(
                f"{rows} x ({heads} + {kv_heads}) x {size}",
                cpp=shortest(lambda: ops.rotate(*task), arguments.seconds),  # noqa: B023
                reference=shortest(lambda: rotate_by_reference(*task), arguments.seconds),  # noqa: B023
            )


if __name__ == "__main__":
    main()
