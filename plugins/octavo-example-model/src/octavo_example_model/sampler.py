"""Top-n-sigma sampling (Tang et al. 2024, arXiv 2411.07641)."""

from typing import ClassVar

from torch import Tensor

from octavo_models.sampling import DefaultSampler, Sampler, SamplingBatch, apply_edits


class TopNSigmaSampler(Sampler):
    """Draws among tokens whose logit is at most n standard deviations below the largest; otherwise the built-in sampler.

    The set does not depend on the temperature. The deviation is that of the model's own logits: tokens that a request forbids
    (minus infinity) would have none.
    """

    marks_bad_rows: ClassVar[bool] = True
    num_sigmas: ClassVar[float] = 1.0

    def __init__(self) -> None:
        self._default = DefaultSampler()

    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        """logits [R, V] -> token ids int64 [R]."""
        logits = logits.float()
        reach = self.num_sigmas * logits.std(dim=1, keepdim=True)
        apply_edits(logits, batch)
        logits.masked_fill_(logits < logits.amax(dim=1, keepdim=True) - reach, -float("inf"))
        return self._default.sample(logits, batch.without_edits())
