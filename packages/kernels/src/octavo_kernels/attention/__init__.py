"""Attention over a paged KV cache: the interface, its backends and the choice between them."""

from octavo_kernels.attention.backend import AttentionBackend, AttentionSpec, AttentionStep, GraphSupport

__all__ = ["AttentionBackend", "AttentionSpec", "AttentionStep", "GraphSupport"]
