"""What the conformance suite runs: shapes, types and mixes of requests."""

from dataclasses import dataclass

import torch

from octavo_kernels.attention.backend import AttentionSpec

Mix = tuple[tuple[int, ...], ...]
"""For each step, how many rows each request has: 0 sits the step out."""


@dataclass(frozen=True, kw_only=True)
class AttentionCase:
    """One run of a few steps.

    Attributes:
        name: what it is about.
        steps: rows of each request in each step; -n stands for n rows of padding that nobody owns, at the end of the step.
        num_kv_heads, group_size, head_size, block_size, window, soft_cap: of the layer.
        dtype: name of the type of queries, keys, values and cache.
        seed: of everything random.
    """

    name: str
    steps: Mix
    num_kv_heads: int = 2
    group_size: int = 2
    head_size: int = 64
    block_size: int = 16
    window: int | None = None
    soft_cap: float | None = None
    dtype: str = "float32"
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.name}-{self.dtype}"

    @property
    def spec(self) -> AttentionSpec:
        return AttentionSpec(
            num_heads=self.num_kv_heads * self.group_size,
            num_kv_heads=self.num_kv_heads,
            head_size=self.head_size,
            scale=self.head_size**-0.5,
            sliding_window=self.window,
            soft_cap=self.soft_cap,
        )

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype = getattr(torch, self.dtype)
        assert isinstance(dtype, torch.dtype)
        return dtype


DECODE: Mix = ((5, 17, 1, 33), (1, 1, 1, 1), (1, 0, 1, 1))
RAGGED: Mix = ((700, 3, 40, 1), (1, 1, 1, 1))
CHUNKS: Mix = ((7,), (9,), (1,), (16,), (2,), (31,), (1,))
MIXED: Mix = ((20, 9), (1, 12, 30), (1, 1, 5, 1), (8, 1, 1, 1))
PADDED: Mix = ((6, 3, -2), (1, 1, -3))
LONG: Mix = ((1500, 30), (1, 1), (3, 1))
SPLITS: Mix = ((255, 300, 40), (1, 1, 250), (1, 230, 1), (30, 1, 1))
EDGES: Mix = ((15, 16, 17), (1, 1, 1), (1, 1, 1), (2, 3, 1))

CONFORMANCE_CASES: tuple[AttentionCase, ...] = (
    *(AttentionCase(name="mixed", steps=MIXED, dtype=dtype, seed=seed) for seed, dtype in enumerate(("float32", "bfloat16", "float16"))),
    *(
        AttentionCase(name=f"head-size-{size}", steps=DECODE, head_size=size, dtype=dtype)
        for size, dtype in ((32, "float32"), (40, "bfloat16"), (72, "float32"), (80, "float16"), (128, "bfloat16"), (256, "float32"))
    ),
    *(
        AttentionCase(name=f"group-{groups}x{size}", steps=MIXED, num_kv_heads=groups, group_size=size, head_size=32)
        for groups, size in ((1, 1), (3, 3), (1, 7), (2, 8), (5, 1))
    ),
    *(
        AttentionCase(name=f"block-size-{size}", steps=EDGES, block_size=size, head_size=32, dtype=dtype)
        for size, dtype in ((8, "float32"), (24, "bfloat16"), (32, "float16"))
    ),
    *(
        AttentionCase(name=f"window-{window}", steps=steps, window=window, head_size=32)
        for window, steps in ((1, MIXED), (8, CHUNKS), (16, EDGES), (17, MIXED), (100, RAGGED), (4096, MIXED))
    ),
    *(
        AttentionCase(name=f"soft-cap-{cap}", steps=MIXED, soft_cap=cap, window=window, dtype=dtype)
        for cap, window, dtype in ((0.5, None, "float32"), (2.0, 9, "bfloat16"), (50.0, None, "float16"))
    ),
    AttentionCase(name="multi-query", steps=MIXED, num_kv_heads=1, group_size=40, head_size=32),
    AttentionCase(name="splits", steps=SPLITS, num_kv_heads=1, group_size=3, head_size=32),
    AttentionCase(name="splits-window", steps=SPLITS, num_kv_heads=1, head_size=40, window=90, dtype="bfloat16"),
    AttentionCase(name="ragged", steps=RAGGED, num_kv_heads=1, head_size=32, dtype="bfloat16"),
    AttentionCase(name="chunks", steps=CHUNKS, dtype="bfloat16"),
    AttentionCase(name="padded", steps=PADDED),
    AttentionCase(name="long", steps=LONG, num_kv_heads=1, group_size=3, head_size=32),
    AttentionCase(name="long-window", steps=LONG, num_kv_heads=1, head_size=32, window=700, dtype="float16"),
)
