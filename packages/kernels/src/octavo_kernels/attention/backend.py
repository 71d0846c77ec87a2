"""What an attention backend is: plan once a step on the host, run once a layer.

Shape legend: N tokens of the step, R requests, H query heads, G KV heads, D head size, B blocks of the pool (null block
included), S block size, T longest block table.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

import torch


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """The static facts of one layer's attention.

    Attributes:
        num_heads, num_kv_heads, head_size: H, G, D; H is a multiple of G.
        scale: what scores are multiplied with, usually D ** -0.5.
        sliding_window: tokens a query sees, itself included; None is all.
        soft_cap: c of c * tanh(score / c), applied before the softmax; None is no cap.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int
    scale: float
    sliding_window: int | None = None
    soft_cap: float | None = None


@dataclass(frozen=True, kw_only=True)
class AttentionStep:
    """Which rows belong to whom in one step. Request i owns rows `query_start[i]:query_start[i + 1]`, the last of its `seq_lens[i]` tokens.

    Attributes:
        query_start: int32 [R + 1].
        seq_lens: int32 [R], tokens of each request once this step's are written.
        block_table: int32 [R, T], block ids in order, padded with the null block 0.
        slot_mapping: int64 [N], `block * S + offset` where each row's KV goes; -1 writes nothing.
        max_query_len, max_seq_len: the largest of each, known on the host.
    """

    query_start: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    max_query_len: int
    max_seq_len: int


class GraphSupport(Enum):
    """Which steps a backend's `run` can be captured for in a graph and replayed, with the plan of another step made before.

    A step that is captured has tensors at fixed places: `plan` puts what it makes at fixed places too, and `run` launches the same work
    whatever the lengths are. Requests of length 0 fill it up.
    """

    NEVER = "never"
    SINGLE_TOKEN_DECODE = "single-token decode"  # noqa: S105
    UNIFORM_BATCH = "uniform batch"
    ALWAYS = "always"


class AttentionBackend(ABC):
    """Writes this step's keys and values into the cache, then attends; causal, grouped-query.

    Rows behind the last request's and rows of requests of length 0 belong to nobody: their output is finite.

    Args:
        block_size: S.
        dtype: of queries, keys, values and the cache.
        device: where all tensors live.
    """

    name: str
    graph_support: GraphSupport = GraphSupport.NEVER

    def __init__(self, *, block_size: int, dtype: torch.dtype, device: torch.device) -> None:
        self.block_size = block_size
        self.dtype = dtype
        self.device = device

    @classmethod
    @abstractmethod
    def unsupported(cls, spec: AttentionSpec, *, block_size: int, dtype: torch.dtype, device: torch.device) -> str | None:
        """Why this backend cannot serve such a layer here, or None if it can. Pure; imports nothing heavy."""

    @abstractmethod
    def page_shape(self, spec: AttentionSpec) -> tuple[int, ...]:
        """Shape of one layer's part of one block; a layer's cache is `[B, *page_shape]`, strided over the pool."""

    @abstractmethod
    def plan(self, step: AttentionStep) -> object:
        """Prepare a step on the host; what comes back is passed to each `run` of the step and to no other."""

    @abstractmethod
    def run(
        self,
        spec: AttentionSpec,
        plan: object,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cache: torch.Tensor,
        out: torch.Tensor,
    ) -> None:
        """Attend one layer. KV of all rows is written before any row attends.

        Args:
            spec: the layer's.
            plan: of this step.
            query: [N, H, D], rotated and not yet scaled.
            key, value: [N, G, D].
            cache: [B, *page_shape], written in place; the last dimension is contiguous.
            out: [N, H, D], written in place.
        """
