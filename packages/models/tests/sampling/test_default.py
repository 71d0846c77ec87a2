from typing import Any

import numpy as np
import pytest
import torch

from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest
from octavo_models.sampling import SamplingBatch
from octavo_models.sampling.batch import SamplingState
from octavo_models.sampling.default import DefaultSampler

VOCAB = 1000
CPU = torch.device("cpu")


def random_logits(rows: int, seed: int = 0, vocab_size: int = VOCAB) -> torch.Tensor:
    return 3 * torch.randn(rows, vocab_size, generator=torch.Generator().manual_seed(seed))


def batch_of(params: list[SamplingParams], *, index: int = 0, vocab_size: int = VOCAB, seeds: list[int] | None = None) -> SamplingBatch:
    """The batch of requests without output, one a row, of which each draws number `index` of its seed."""
    state = SamplingState(len(params), vocab_size, CPU)
    for slot, param in enumerate(params):
        seed = slot if seeds is None else seeds[slot]
        request = AddedRequest(
            request_id=str(slot),
            epoch=0,
            token_ids=[1],
            num_prompt_tokens=1,
            num_computed_tokens=0,
            block_ids=[[]],
            params=param,
            ending_token_ids=[2, 3],
            seed=seed,
        )
        state.add(slot, request)
    return state.batch(np.arange(len(params)), np.full(len(params), index))


def sample(logits: torch.Tensor, params: list[SamplingParams], **settings: Any) -> list[int]:
    tokens: list[int] = DefaultSampler().sample(logits.clone(), batch_of(params, vocab_size=logits.shape[1], **settings)).tolist()
    return tokens


def exact_probabilities(logits: torch.Tensor, params: SamplingParams) -> np.ndarray:
    """What each token's probability has to be, by sorting in float64; no two logits are equal."""
    scaled = logits.double().numpy() / params.temperature
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    probabilities[probabilities < params.min_p * probabilities.max()] = 0
    order = np.argsort(-probabilities)
    if params.top_k > 0:
        probabilities[order[params.top_k :]] = 0
    mass = probabilities[order].cumsum() / probabilities.sum()
    probabilities[order[np.searchsorted(mass, params.top_p) + 1 :]] = 0
    return probabilities / probabilities.sum()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 2.0},
        {"top_k": 5},
        {"top_p": 0.6},
        {"min_p": 0.1},
        {"top_k": 12, "top_p": 0.8, "min_p": 0.02, "temperature": 1.3},
    ],
)
@pytest.mark.parametrize("vocab_size", [40, 700])
def test_draws_follow_the_exact_distribution(settings: dict[str, Any], vocab_size: int) -> None:
    params = SamplingParams(**settings)
    draws = 2000
    logits = random_logits(1, seed=4, vocab_size=vocab_size)
    tokens = sample(logits.expand(draws, -1).contiguous(), [params] * draws)
    expected = exact_probabilities(logits[0], params) * draws
    counts = np.bincount(tokens, minlength=vocab_size)
    assert counts[expected == 0].sum() == 0
    # Tokens too rare for the chi-square approximation are one bin.
    often = expected >= 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], max(expected[~often].sum(), 1e-9))
    statistic = ((observed - wanted) ** 2 / wanted)[wanted > 1].sum()
    degrees = (wanted > 1).sum() - 1
    assert statistic < degrees + 4 * np.sqrt(2 * max(degrees, 1)) + 4


def test_greedy_rows_take_the_likeliest_token() -> None:
    logits = random_logits(6)
    assert sample(logits, [SamplingParams(temperature=0)] * 6) == logits.argmax(1).tolist()


@pytest.mark.parametrize("temperature", [1e-3, 1e-4, 1e-5, 1e-6, 1e-12, 5e-324])
@pytest.mark.parametrize("settings", [{}, {"top_p": 0.9}, {"top_k": 50}, {"min_p": 0.05}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tiny_temperatures_are_greedy_and_leave_neighbours_alone(temperature: float, settings: dict[str, Any], dtype: torch.dtype) -> None:
    logits = random_logits(3).clamp_(max=8).to(dtype)
    logits[0, 17], logits[2, 400] = 9, 9
    tiny, warm = SamplingParams(temperature=temperature, **settings), SamplingParams()
    tokens = sample(logits, [tiny, warm, tiny])
    assert (tokens[0], tokens[2]) == (17, 400)
    assert tokens[1] == sample(logits[1:2], [warm], seeds=[1])[0]


def test_each_row_draws_in_a_batch_what_it_draws_alone() -> None:
    kinds = [
        SamplingParams(),
        SamplingParams(temperature=0),
        SamplingParams(top_k=3),
        SamplingParams(top_p=0.8, temperature=1.5),
        SamplingParams(min_p=0.05),
        SamplingParams(presence_penalty=1.0, logit_bias={7: 5.0}),
    ]
    params = kinds * 6
    logits = random_logits(len(params), vocab_size=3001)
    together = sample(logits, params, index=3)
    alone = [sample(logits[row : row + 1], [params[row]], index=3, seeds=[row])[0] for row in range(len(params))]
    assert together == alone


def test_draws_depend_on_seed_and_index() -> None:
    logits = torch.zeros(1, VOCAB)
    drawn = {(seed, index): sample(logits, [SamplingParams()], seeds=[seed], index=index)[0] for seed in range(5) for index in range(5)}
    assert len(set(drawn.values())) > 20


def test_top_k_of_one_and_a_tiny_top_p_are_greedy() -> None:
    logits = random_logits(3)
    params = [SamplingParams(top_k=1), SamplingParams(top_p=1e-9), SamplingParams(min_p=1.0)]
    assert sample(logits, params) == logits.argmax(1).tolist()


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 1.0}, {"top_p": 0.5}])
def test_bias_of_plus_100_forces_and_of_minus_100_forbids(settings: dict[str, Any]) -> None:
    logits = random_logits(1)
    best = int(logits.argmax())
    assert sample(logits, [SamplingParams(logit_bias={5: 100}, **settings)]) == [5]
    rows = 50
    banned = sample(logits.expand(rows, -1), [SamplingParams(logit_bias={best: -100}, **settings)] * rows)
    assert best not in banned


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 1.0}, {"top_k": 4}])
def test_ending_tokens_never_come_before_min_tokens_even_with_a_bias(settings: dict[str, Any]) -> None:
    logits = random_logits(1)
    params = SamplingParams(min_tokens=5, logit_bias={2: 100, 3: 100}, **settings)
    for index in range(5):
        assert not {2, 3} & set(sample(logits, [params], index=index))
    assert set(sample(logits, [params], index=5)) <= {2, 3}


def test_bias_is_added_in_float32_to_half_precision_logits() -> None:
    logits = torch.full((1, VOCAB), 16.0, dtype=torch.bfloat16)
    assert sample(logits, [SamplingParams(temperature=0, logit_bias={9: 0.01})]) == [9]


def test_penalties_follow_the_formulas() -> None:
    logits = random_logits(3, vocab_size=50)
    counts = torch.randint(0, 3, (2, 50), dtype=torch.int32)
    seen = (counts > 0) | (torch.rand(2, 50) < 0.3)
    repetition, frequency, presence = [1.7, 0.6], [0.4, -1.1], [-0.9, 1.3]
    batch = SamplingBatch(
        all_greedy=True,
        penalty_rows=torch.tensor([2, 0]),
        output_counts=counts,
        seen=seen,
        repetition_penalty=torch.tensor(repetition),
        frequency_penalty=torch.tensor(frequency),
        presence_penalty=torch.tensor(presence),
    )
    expected = logits.tolist()
    for place, row in enumerate((2, 0)):
        for token in range(50):
            value = expected[row][token]
            if seen[place, token]:
                value = value / repetition[place] if value > 0 else value * repetition[place]
            count = int(counts[place, token])
            expected[row][token] = value - frequency[place] * count - (presence[place] if count else 0.0)
    edited = logits.clone()
    tokens = DefaultSampler().sample(edited, batch)
    torch.testing.assert_close(edited, torch.tensor(expected))
    assert tokens.tolist() == torch.tensor(expected).argmax(1).tolist()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rows_with_broken_logits_give_minus_one_and_leave_the_others_alone(value: float) -> None:
    params = [
        SamplingParams(temperature=0),
        SamplingParams(),
        SamplingParams(top_p=0.9),
        SamplingParams(top_k=3),
        SamplingParams(min_p=0.1),
    ] * 2
    logits = random_logits(len(params))
    whole = sample(logits, params)
    logits[:5, 123] = value
    assert sample(logits, params) == [-1] * 5 + whole[5:]
