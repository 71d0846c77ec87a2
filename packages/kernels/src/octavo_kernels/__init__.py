"""Leaf functions of Octavo: ops and attention backends. Knows tensors and values, nothing of the engine."""
