"""The suite passes what is right, and finds each fault that it is there for."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from octavo_models.sampling import Sampler, SamplingBatch
from octavo_models.sampling.default import DefaultSampler
from octavo_models.testing.conformance import FILTER_CASES, SAMPLER_CASES, check_sampler


@pytest.mark.parametrize("case", [*SAMPLER_CASES, *FILTER_CASES], ids=str)
def test_the_built_in_sampler_conforms(case: str) -> None:
    check_sampler(DefaultSampler, case)


class Spoiled(DefaultSampler):
    """The built-in sampler with something wrong before or after it."""


class AlwaysLikeliest(Sampler):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        return logits.argmax(dim=1)


class GeneratorState(Spoiled):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        uniforms = None if batch.uniforms is None else torch.rand(len(logits), dtype=torch.float64)
        return super().sample(logits, replace(batch, uniforms=uniforms))


class NarrowIds(Spoiled):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        return super().sample(logits, batch).int()


class HotGreedy(Spoiled):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        if batch.temperature is None:
            return super().sample(logits, batch)
        return super().sample(logits + torch.arange(logits.shape[1]), batch)


class DeafToBiases(Spoiled):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        return super().sample(logits, replace(batch, bias_rows=None))


class DeafToPenalties(Spoiled):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        return super().sample(logits, replace(batch, penalty_rows=None))


class LooksAround(Spoiled):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        return super().sample(logits - logits.mean(dim=0), batch)


class WritesTheBatch(Spoiled):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        tokens = super().sample(logits, batch)
        if batch.temperature is not None:
            batch.temperature.fill_(1.0)
        return tokens


class HidesBadRows(Spoiled):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        return super().sample(logits, batch).clamp(min=0)


class DeafToFilters(Spoiled):
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        return super().sample(logits, replace(batch, top_k=None, top_p=None, min_p=None))


@pytest.mark.parametrize(
    ("sampler", "case", "fault"),
    [
        (AlwaysLikeliest, "draws", "two equal tokens"),
        (GeneratorState, "repeatable", "the same batch gave"),
        (NarrowIds, "greedy", "must be int64"),
        (HotGreedy, "greedy among others", "greedy rows beside others"),
        (HotGreedy, "next to no temperature", "next to no temperature"),
        (DeafToBiases, "forbidden and biased tokens", "forbidden by min_tokens"),
        (DeafToPenalties, "penalties", "instead of 7"),
        (LooksAround, "alone", r"^a row of temperature [\d.]+(, \w+ [^,]+)* gets \d+ in company"),
        (WritesTheBatch, "repeatable", "the same batch gave|changed temperature"),
        (HidesBadRows, "bad rows", "instead of -1"),
        *((DeafToFilters, case, "came with") for case in FILTER_CASES),
    ],
)
def test_a_faulty_sampler_is_found(sampler: type[Sampler], case: str, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_sampler(sampler, case)
