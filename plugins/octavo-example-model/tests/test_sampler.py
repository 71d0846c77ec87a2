import pytest
import torch

from octavo.sampling_params import SamplingParams
from octavo_example_model.sampler import TopNSigmaSampler
from octavo_models.testing.conformance import FILTER_CASES, SAMPLER_CASES, check_sampler, sampling_batch


@pytest.mark.parametrize("case", [*SAMPLER_CASES, *FILTER_CASES], ids=str)
def test_conforms(case: str) -> None:
    check_sampler(TopNSigmaSampler, case)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_no_token_is_drawn_from_further_below_the_largest_than_a_deviation(temperature: float) -> None:
    logits = torch.randn(1, 300, generator=torch.Generator().manual_seed(0)).repeat(500, 1)
    batch = sampling_batch([SamplingParams(temperature=temperature)] * 500, vocab_size=300)
    drawn = set(TopNSigmaSampler().sample(logits.clone(), batch).tolist())
    allowed = set((logits[0] >= logits[0].max() - logits[0].std()).nonzero().flatten().tolist())
    assert drawn <= allowed
    assert len(drawn) > 1
