"""RMSNorm in C++ beside its reference: `python benchmarks/kernels/bench_rms_norm.py`."""

import torch
from clock import parse_arguments, print_row, shortest

from octavo_kernels import ops
from octavo_kernels.reference import norm


def main() -> None:
    arguments = parse_arguments(__doc__)
    for rows in (1, 16, 64, 512):
        for width in (576, 4096):
            x, residual = torch.randn(2, rows, width).to(arguments.dtype)
            weight = torch.randn(width).to(arguments.dtype)
            print_row(
                f"norm {rows} x {width}",
                cpp=shortest(lambda: ops.rms_norm(x, weight, 1e-5), arguments.seconds),  # noqa: B023
                reference=shortest(lambda: norm.rms_norm(x, weight, 1e-5), arguments.seconds),  # noqa: B023
            )
            print_row(
                f"add, norm {rows} x {width}",
                cpp=shortest(lambda: ops.add_rms_norm(x, residual, weight, 1e-5), arguments.seconds),  # noqa: B023
                reference=shortest(lambda: norm.add_rms_norm(x, residual, weight, 1e-5), arguments.seconds),  # noqa: B023
            )


if __name__ == "__main__":
    main()
