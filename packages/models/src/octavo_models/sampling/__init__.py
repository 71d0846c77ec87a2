"""From logits to tokens."""

from octavo_models.sampling.sampler import Sampler, SamplingBatch

__all__ = ["Sampler", "SamplingBatch"]
