"""Linear layers with packed weights beside torch's own: `python benchmarks/kernels/bench_linear.py`.

Every call takes the weights of another layer, so that they come from memory as they do in a model.
"""

from itertools import cycle

import torch
from clock import parse_arguments, print_row, shortest
from torch import Tensor
from torch.nn import functional

from octavo_kernels.cpu import linear as cpu
from octavo_kernels.cpu.memory import LargePages
from octavo_kernels.native import Native, load_native

SHAPES = [(576, 960, "store"), (576, 576, "add"), (576, 3072, "gated"), (1536, 576, "add"), (576, 49152, "largest")]
"""Inputs, outputs and what is made of the product: the layers of SmolLM2-135M."""
ROWS = (1, 2, 4, 16, 32, 64, 128, 512, 2048)
BYTES = 150 << 20


def main() -> None:
    arguments = parse_arguments(__doc__)
    native = load_native()
    assert native is not None, "there is nothing to measure without the library"
    for inputs, outputs, kind in SHAPES:
        weight = torch.randn(outputs, inputs).to(arguments.dtype)
        num_bytes = cpu.packed_bytes(native.library, outputs, inputs, weight.dtype, isa=native.isa, gated=kind == "gated")
        count = max(1, BYTES // num_bytes)
        pages = LargePages(native.library, [num_bytes] * count)
        packed = [cpu.pack(native.library, weight, pages.take(num_bytes), isa=native.isa, gated=kind == "gated") for _ in range(count)]
        weights = [weight.clone() for _ in range(count)]
        for rows in ROWS if kind != "largest" else ROWS[:-2]:
            measure(native, (inputs, outputs, kind), rows, packed, weights, arguments.seconds)


def measure(native: Native, shape: tuple[int, int, str], rows: int, packed: list[Tensor], weights: list[Tensor], seconds: float) -> None:
    inputs, outputs, kind = shape
    x = torch.randn(rows, inputs).to(weights[0].dtype)
    residual = torch.randn(rows, outputs).to(x.dtype)
    out = x.new_empty(rows, outputs // 2 if kind == "gated" else outputs)
    ours, theirs = cycle(packed), cycle(weights)

    def cpp() -> None:
        if kind == "gated":
            cpu.linear_gated(native.library, x, next(ours), None, out, "silu", isa=native.isa)
        elif kind == "largest":
            cpu.linear_largest(native.library, x, next(ours), None, outputs, isa=native.isa)
        else:
            cpu.linear(native.library, x, next(ours), None, out, residual=residual if kind == "add" else None, isa=native.isa)

    with torch.inference_mode():
        times = {"cpp": shortest(cpp, seconds), "torch": shortest(lambda: functional.linear(x, next(theirs)), seconds)}
    rate = 2 * rows * inputs * outputs / times["cpp"] / 1e3
    print_row(f"{kind} {rows} x {inputs} -> {outputs}, {rate:.0f} GFLOP/s", **times)


if __name__ == "__main__":
    main()
