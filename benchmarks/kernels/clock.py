"""How the benchmarks of this folder measure and print."""

import argparse
import time
from collections.abc import Callable

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def parse_arguments(description: str | None) -> argparse.Namespace:
    """The arguments of all benchmarks; sets the number of threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=list(DTYPES), default="bfloat16")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.dtype = DTYPES[arguments.dtype]
    return arguments


def shortest(run: Callable[[], object], seconds: float) -> float:
    """Microseconds of the shortest of many calls, the first two left out."""
    run()
    run()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def print_row(label: str, **microseconds: float) -> None:
    """One line: each figure, and how many times faster the first is than the others."""
    (_, first), *others = microseconds.items()
    figures = "  ".join(f"{name} {value:10,.1f} us" for name, value in microseconds.items())
    factors = "  ".join(f"{value / first:.1f}x" for _, value in others)
    print(f"{label:24}  {figures}  {factors}", flush=True)
