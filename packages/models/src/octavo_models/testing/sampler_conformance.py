"""What holds for every sampler: requests that are greedy, forbid tokens or are alone get what they must get."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest
from octavo_models.sampling import Sampler, SamplingBatch
from octavo_models.sampling.batch import SamplingState

MakeSampler = Callable[[], Sampler]

_ENDING = 5
_GREEDY = SamplingParams(temperature=0)
_DRAWN = SamplingParams(temperature=1.0)
_REPETITIONS = 16
"""So many that draws which differ by chance are seen to."""

_MIX = (
    _GREEDY,
    _DRAWN,
    SamplingParams(temperature=0.7, top_p=0.9),
    SamplingParams(temperature=1.3, top_k=7),
    SamplingParams(temperature=0, min_tokens=4),
    SamplingParams(temperature=0.9, min_p=0.05, logit_bias={3: 4.0}),
    SamplingParams(temperature=0, repetition_penalty=1.5, frequency_penalty=0.7),
)


def check_sampler(make_sampler: MakeSampler, case: str) -> None:
    """Hold a sampler to one part of its contract. Raises AssertionError with what is wrong.

    Args:
        make_sampler: the sampler's class.
        case: of `SAMPLER_CASES`, or of `FILTER_CASES` for a sampler that says it honours top-k, top-p and min-p.
    """
    with torch.inference_mode():
        _CHECKS[case](make_sampler)


def sampling_batch(params: Sequence[SamplingParams], *, vocab_size: int, num_output_tokens: int = 2, first_seed: int = 0) -> SamplingBatch:
    """What the runner would tell a sampler of rows with these parameters, seeds counting up; their prompts are tokens 1, 2, 3.

    Args:
        params: of each row.
        vocab_size: V, at least 8.
        num_output_tokens: tokens that each has put out already, 4, 5, 6, …
        first_seed: of row 0.
    """
    state = SamplingState(len(params), vocab_size, torch.device("cpu"))
    output = [4 + index % 4 for index in range(num_output_tokens)]
    for slot, one in enumerate(params):
        state.add(slot, _request(slot, one, output, seed=first_seed + slot))
    return state.batch(np.arange(len(params)), np.full(len(params), num_output_tokens))


def _request(slot: int, params: SamplingParams, output: list[int], *, seed: int) -> AddedRequest:
    return AddedRequest(
        request_id=str(slot),
        epoch=0,
        token_ids=[1, 2, 3, *output],
        num_prompt_tokens=3,
        num_computed_tokens=0,
        block_ids=[[1]],
        params=params,
        ending_token_ids=[_ENDING],
        seed=seed,
    )


def _logits(rows: int, vocab_size: int, *, seed: int = 0) -> Tensor:
    return torch.randn(rows, vocab_size, generator=torch.Generator().manual_seed(seed)) * 3


def _sample(make_sampler: MakeSampler, logits: Tensor, batch: SamplingBatch) -> list[int]:
    """Tokens of a copy of the logits, which a sampler may overwrite."""
    tokens = make_sampler().sample(logits.clone(), batch)
    assert tokens.dtype == torch.int64, f"tokens are {tokens.dtype}, but must be int64"
    assert tokens.shape == (len(logits),), f"tokens of {len(logits)} rows are {tuple(tokens.shape)}"
    return tokens.tolist()


def _check_greedy(make_sampler: MakeSampler) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for vocab_size in (8, 257, 1000):
            logits = _logits(5, vocab_size)
            best = [(37 * row + 3) % vocab_size for row in range(5)]
            logits[torch.arange(5), torch.tensor(best)] = 20.0
            tokens = _sample(make_sampler, logits.to(dtype), sampling_batch([_GREEDY] * 5, vocab_size=vocab_size))
            assert tokens == best, f"greedy rows of {dtype} over {vocab_size} tokens got {tokens}; the likeliest are {best}"


def _check_greedy_among_others(make_sampler: MakeSampler) -> None:
    params = [_GREEDY, _DRAWN] * 8
    logits = _logits(16, 300)
    tokens = _sample(make_sampler, logits, sampling_batch(params, vocab_size=300))
    expected = logits.argmax(dim=1).tolist()
    assert tokens[::2] == expected[::2], f"greedy rows beside others got {tokens[::2]}; the likeliest are {expected[::2]}"
    assert all(0 <= token < 300 for token in tokens), f"tokens {tokens} are out of the vocabulary of 300"


def _check_cold(make_sampler: MakeSampler) -> None:
    logits = _logits(6, 300)
    tokens = _sample(make_sampler, logits, sampling_batch([SamplingParams(temperature=1e-4)] * 6, vocab_size=300))
    expected = logits.argmax(dim=1).tolist()
    assert tokens == expected, f"rows with next to no temperature got {tokens}; the likeliest are {expected}"


def _check_forbidden(make_sampler: MakeSampler) -> None:
    """A token that may not come never comes, even where the model wants it most; a bias counts."""
    logits = _logits(64, 50)
    logits[:, _ENDING] = 30.0
    for temperature in (0.0, 1.0, 5.0):
        params = [SamplingParams(temperature=temperature, min_tokens=3)] * 64
        tokens = _sample(make_sampler, logits, sampling_batch(params, vocab_size=50))
        assert _ENDING not in tokens, f"a token that is forbidden by min_tokens was drawn at temperature {temperature}"
        assert all(0 <= token < 50 for token in tokens), f"beside a forbidden token rows got {tokens}"
    for temperature in (0.0, 1.0, 5.0):
        restricted = [SamplingParams(temperature=temperature, allowed_token_ids=[7, 12])] * 64
        tokens = _sample(make_sampler, logits, sampling_batch(restricted, vocab_size=50))
        assert set(tokens) <= {7, 12}, f"where tokens 7 and 12 alone may come, {sorted(set(tokens))} came at temperature {temperature}"
    biased = [SamplingParams(temperature=0, logit_bias={9: 100.0})] * 64
    tokens = _sample(make_sampler, logits, sampling_batch(biased, vocab_size=50))
    assert tokens == [9] * 64, f"a bias of 100 on token 9 gave {sorted(set(tokens))}"


def _check_penalties(make_sampler: MakeSampler) -> None:
    """Output tokens are 4 and 5, both once; the penalties take them below what was next."""
    logits = torch.full((3, 16), -1.0)
    logits[:, 4], logits[:, 7] = 2.0, 1.9
    params = [
        SamplingParams(temperature=0, repetition_penalty=1.5),
        SamplingParams(temperature=0, frequency_penalty=0.5),
        SamplingParams(temperature=0, presence_penalty=0.5),
    ]
    tokens = _sample(make_sampler, logits, sampling_batch(params, vocab_size=16))
    assert tokens == [7, 7, 7], f"rows with repetition, frequency and presence penalty on token 4 got {tokens} instead of 7"


def _check_alone(make_sampler: MakeSampler) -> None:
    """Neither neighbours nor the place in the batch matter."""
    logits = _logits(len(_MIX), 400)
    together = _sample(make_sampler, logits, sampling_batch(_MIX, vocab_size=400))
    for row, params in enumerate(_MIX):
        batch = sampling_batch([params], vocab_size=400, first_seed=row)
        (alone,) = _sample(make_sampler, logits[row : row + 1], batch)
        assert alone == together[row], f"a row of {_wishes(params)} gets {together[row]} in company and {alone} alone"


def _wishes(params: SamplingParams) -> str:
    """What differs from the defaults, for a message."""
    asked = {name: getattr(params, name) for name in SamplingParams.__struct_fields__}
    usual = SamplingParams()
    return ", ".join(f"{name} {value}" for name, value in asked.items() if value != getattr(usual, name)) or "default parameters"


def _check_repeatable(make_sampler: MakeSampler) -> None:
    """The draw is a function of the batch, which stays as it is."""
    logits = _logits(len(_MIX), 400, seed=3)
    batch = sampling_batch(_MIX, vocab_size=400)
    before = _tensors(replace(batch))
    sampler = make_sampler()
    first = sampler.sample(logits.clone(), batch)
    for _ in range(_REPETITIONS):
        again = sampler.sample(logits.clone(), batch)
        assert torch.equal(first, again), f"the same batch gave {first.tolist()}, then {again.tolist()}: draws come from `uniforms` alone"
    for name, tensor in _tensors(batch).items():
        assert torch.equal(tensor, before[name]), f"the sampler changed {name} of the batch"


def _check_draws(make_sampler: MakeSampler) -> None:
    """Two tokens that are equally likely, far above the others, come about equally often."""
    logits = torch.full((400, 60), -30.0)
    logits[:, 11] = logits[:, 42] = 5.0
    tokens = _sample(make_sampler, logits, sampling_batch([_DRAWN] * 400, vocab_size=60))
    assert set(tokens) == {11, 42}, f"two equal tokens were offered, and {sorted(set(tokens))} were drawn"
    share = tokens.count(11) / 400
    assert 0.4 < share < 0.6, f"of two equal tokens one came in {share:.0%} of the draws"


def _check_bad_rows(make_sampler: MakeSampler) -> None:
    """-1 for rows of NaN and infinities where the sampler says that it looks; the others are unharmed."""
    if not make_sampler().marks_bad_rows:
        return
    for params in (_GREEDY, _DRAWN, SamplingParams(temperature=0.7, top_p=0.9)):
        logits = _logits(5, 300)
        expected = _sample(make_sampler, logits, sampling_batch([params] * 5, vocab_size=300))
        logits[0, 7], logits[2, 9], logits[4] = float("nan"), float("inf"), -float("inf")
        tokens = _sample(make_sampler, logits, sampling_batch([params] * 5, vocab_size=300))
        assert [tokens[row] for row in (0, 2, 4)] == [-1] * 3, f"rows with NaN, inf and nothing but -inf got {tokens[::2]} instead of -1"
        assert tokens[1::2] == expected[1::2], "a bad row changed the tokens of its neighbours"


def _check_top_k(make_sampler: MakeSampler) -> None:
    logits = _logits(200, 300)
    tokens = _sample(make_sampler, logits, sampling_batch([SamplingParams(top_k=3)] * 200, vocab_size=300))
    allowed = logits.topk(3, dim=1).indices.tolist()
    assert all(token in row for token, row in zip(tokens, allowed, strict=True)), "a token beyond the 3 likeliest came with top_k 3"


def _check_top_p(make_sampler: MakeSampler) -> None:
    logits = _logits(200, 300)
    tokens = _sample(make_sampler, logits, sampling_batch([SamplingParams(top_p=0.5)] * 200, vocab_size=300))
    ordered, ids = logits.softmax(dim=1).sort(dim=1, descending=True)
    for row, token in enumerate(tokens):
        rank = ids[row].tolist().index(token)
        assert float(ordered[row, :rank].sum()) < 0.5 + 1e-5, "a token beyond the nucleus came with top_p 0.5"


def _check_min_p(make_sampler: MakeSampler) -> None:
    logits = _logits(200, 300)
    tokens = _sample(make_sampler, logits, sampling_batch([SamplingParams(min_p=0.2)] * 200, vocab_size=300))
    probabilities = logits.softmax(dim=1)
    shares = probabilities[torch.arange(200), torch.tensor(tokens)] / probabilities.amax(dim=1)
    assert bool((shares >= 0.2 - 1e-5).all()), "a token below a fifth of the likeliest came with min_p 0.2"


def _tensors(batch: SamplingBatch) -> dict[str, Tensor]:
    values: dict[str, Any] = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value.clone() for name, value in values.items() if isinstance(value, Tensor)}


_CONTRACT: dict[str, Callable[[MakeSampler], None]] = {
    "greedy": _check_greedy,
    "greedy among others": _check_greedy_among_others,
    "next to no temperature": _check_cold,
    "forbidden and biased tokens": _check_forbidden,
    "penalties": _check_penalties,
    "alone": _check_alone,
    "repeatable": _check_repeatable,
    "draws": _check_draws,
    "bad rows": _check_bad_rows,
}
_FILTERS: dict[str, Callable[[MakeSampler], None]] = {"top k": _check_top_k, "top p": _check_top_p, "min p": _check_min_p}
_CHECKS = _CONTRACT | _FILTERS

SAMPLER_CASES: tuple[str, ...] = tuple(_CONTRACT)
"""What every sampler has to do."""
FILTER_CASES: tuple[str, ...] = tuple(_FILTERS)
"""What a sampler does that honours top-k, top-p and min-p."""
