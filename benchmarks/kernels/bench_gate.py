"""Gated activations in C++ beside their references: `python benchmarks/kernels/bench_gate.py`."""

import torch
from clock import parse_arguments, print_row, shortest

from octavo_kernels import ops
from octavo_kernels.reference import activation

PAIRS = {
    "silu": (ops.silu_and_mul, activation.silu_and_mul),
    "gelu_tanh": (ops.gelu_tanh_and_mul, activation.gelu_tanh_and_mul),
}


def main() -> None:
    arguments = parse_arguments(__doc__)
    for name, (op, reference) in PAIRS.items():
        for width in (1536, 11008):
            for rows in (1, 16, 64, 512):
                both = torch.randn(rows, 2 * width).to(arguments.dtype)
                print_row(
                    f"{name} {rows} x {width}",
                    cpp=shortest(lambda: op(both), arguments.seconds),  # noqa: B023
                    reference=shortest(lambda: reference(both), arguments.seconds),  # noqa: B023
                )


if __name__ == "__main__":
    main()
