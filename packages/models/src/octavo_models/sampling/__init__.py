"""From logits to tokens: what samplers and logits processors are, and what those of plugins build on."""

from octavo_models.sampling.default import DefaultSampler
from octavo_models.sampling.edits import apply_edits
from octavo_models.sampling.processor import LogitsProcessor
from octavo_models.sampling.sampler import Sampler, SamplingBatch

__all__ = ["DefaultSampler", "LogitsProcessor", "Sampler", "SamplingBatch", "apply_edits"]
