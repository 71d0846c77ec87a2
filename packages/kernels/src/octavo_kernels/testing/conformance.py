"""Runs a backend over random traffic and compares every row with dense attention over the whole sequence."""

from collections.abc import Callable

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionBackend
from octavo_kernels.reference.attention import causal_attention
from octavo_kernels.testing.cases import AttentionCase
from octavo_kernels.testing.traffic import Traffic, TrafficStep

TOLERANCES = {"float32": 2e-5, "bfloat16": 2e-2, "float16": 2e-3}
"""Absolute and relative, for values that are about normally distributed."""
NUM_LAYERS = 3
LAYER = 1

BackendFactory = Callable[..., AttentionBackend]
"""A backend's class, or anything that takes block_size, dtype and device and returns a backend."""


def check_attention(make_backend: BackendFactory, case: AttentionCase, *, device: torch.device | None = None) -> None:
    """Drive a backend through a case. Raises AssertionError where it differs from the reference or touches what is not its own.

    The cache is one layer of three that share a pool, so strided. What nobody has written holds stale numbers.
    """
    device = device or torch.device("cpu")
    backend = make_backend(block_size=case.block_size, dtype=case.torch_dtype, device=device)
    traffic = Traffic(case, device)
    pool = traffic.stale(traffic.num_blocks, NUM_LAYERS, *backend.page_shape(case.spec))
    before = pool.clone()
    for number, step in enumerate(traffic.steps()):
        out = run_step(backend, case, step, pool[:, LAYER])
        compare_step(traffic, step, out, f"step {number} of {case}")
    others = [layer for layer in range(NUM_LAYERS) if layer != LAYER]
    assert torch.equal(pool[:, others], before[:, others]), f"{case}: the pages of another layer were written"
    assert torch.equal(pool[0], before[0]), f"{case}: the null block was written"


def run_step(backend: AttentionBackend, case: AttentionCase, step: TrafficStep, cache: Tensor) -> Tensor:
    """The output [N, H, D] of one step; filled with NaN beforehand."""
    out = torch.full(step.query.shape, float("nan"), dtype=step.query.dtype, device=step.query.device)
    backend.run(case.spec, backend.plan(step.step), step.query, step.key, step.value, cache, out)
    return out


def compare_step(traffic: Traffic, step: TrafficStep, out: Tensor, label: str) -> None:
    """Compare the rows of every request with dense attention; rows of nobody must be finite."""
    tolerance = TOLERANCES[traffic.case.dtype]
    for (request, rows), length in zip(step.owners, step.step.seq_lens.tolist(), strict=True):
        query, key, value = traffic.request(request)
        expected = causal_attention(query[length - len(rows) : length], key[:length], value[:length], traffic.case.spec)
        try:
            torch.testing.assert_close(out[rows.start : rows.stop].float(), expected, atol=tolerance, rtol=tolerance)
        except AssertionError as error:
            raise AssertionError(f"request {request} in {label}: {error}") from error
    assert bool(out.isfinite().all()), f"{label}: a row of padding is not finite"
