"""Log-probabilities of prompts and outputs against a plain forward."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from octavo.config.engine import EngineConfig
from octavo.logprobs import LogprobRows, join
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import StepResult
from octavo_models.llama import LlamaModel
from octavo_models.loading.loader import load_model
from octavo_models.runner import prompt_rows
from octavo_models.runner.sample import BAD_LOGITS
from octavo_models.testing.dense import dense_logits

MakeDriver = Callable[..., Any]

BOTH = SamplingParams(temperature=0, logprobs=2, prompt_logprobs=3)


def prompt(length: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(3, 320), k=length)


@pytest.fixture
def plain(config: EngineConfig) -> Callable[[list[int]], torch.Tensor]:
    """From a sequence to the log-softmax [N, V] of a forward over the whole of it."""
    model = load_model(config, LlamaModel, torch.float32, progress=False)

    def forward(tokens: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            return dense_logits(model, torch.tensor(tokens)).log_softmax(dim=1)

    return forward


def agree(rows: LogprobRows, tokens: list[int], expected: torch.Tensor, num_top: int) -> None:
    """Rows are what the log-softmax [n, V] before each of the tokens says."""
    assert len(rows) == len(tokens) == len(expected)
    assert rows.num_top == num_top
    for (ids, values, rank), token, row in zip(rows.positions(), tokens, expected, strict=True):
        assert ids[0] == token
        assert torch.tensor(values) == pytest.approx(row[list(ids)], abs=1e-4)
        assert torch.tensor(values[1:]) == pytest.approx(row.topk(num_top).values, abs=1e-4)
        assert rank == 1 + int((row > row[token] + 1e-5).sum())


def run(driver: Any, name: str, count: int, chunk: int) -> tuple[list[LogprobRows], list[LogprobRows]]:
    """Parts of the prompt's and of the output's log-probabilities while a request gets so many tokens."""
    prompts, outputs = [], []
    request = driver.requests[name]
    while len(request.output) < count:
        result: StepResult = driver.step({name: min(chunk, len(request.tokens) - request.num_computed)})
        prompts += [result.prompt_logprobs[name]] if name in result.prompt_logprobs else []
        outputs += [result.logprobs[name]] if name in result.logprobs else []
    return prompts, outputs


@pytest.mark.parametrize("length", [1, 2, 8, 9, 37])
@pytest.mark.parametrize("chunk", [1, 5, 8, 64])
@pytest.mark.parametrize("head_bytes", [prompt_rows.HEAD_BYTES, 4 * 320 * 3, 1])
def test_prompt_and_output_have_the_values_of_a_plain_forward(
    make_driver: MakeDriver,
    plain: Callable[[list[int]], torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    length: int,
    chunk: int,
    head_bytes: int,
) -> None:
    monkeypatch.setattr(prompt_rows, "HEAD_BYTES", head_bytes)
    driver = make_driver()
    driver.add("a", prompt(length), BOTH)
    prompts, outputs = run(driver, "a", 4, chunk)
    tokens = driver.requests["a"].tokens
    expected = plain(tokens)
    agree(join(outputs), tokens[length:], expected[length - 1 : -1], 2)
    if length > 1:
        agree(join(prompts), tokens[1:length], expected[: length - 1], 3)
    else:
        assert prompts == []


def test_in_a_batch_each_gets_what_it_asked_for(make_driver: MakeDriver, plain: Callable[[list[int]], torch.Tensor]) -> None:
    wishes = {"none": (None, None), "prompt": (None, 0), "output": (4, None), "both": (0, 20)}
    driver = make_driver()
    for seed, (name, (logprobs, prompt_logprobs)) in enumerate(wishes.items()):
        driver.add(name, prompt(10 + seed, seed), SamplingParams(temperature=0, logprobs=logprobs, prompt_logprobs=prompt_logprobs))
    result = driver.step({name: 10 + seed for seed, name in enumerate(wishes)})
    assert set(result.prompt_logprobs) == {"prompt", "both"}
    assert set(result.logprobs) == {"output", "both"}
    for name, (logprobs, prompt_logprobs) in wishes.items():
        request = driver.requests[name]
        expected, length = plain(request.tokens), request.num_prompt_tokens
        if logprobs is not None:
            agree(result.logprobs[name], request.output, expected[length - 1 : length], logprobs)
        if prompt_logprobs is not None:
            agree(result.prompt_logprobs[name], request.tokens[1:length], expected[: length - 1], prompt_logprobs)


@pytest.mark.parametrize(
    "edits",
    [
        {"logit_bias": {5: 50.0}},
        {"allowed_token_ids": [5, 6]},
        {"repetition_penalty": 1.5},
        {"temperature": 2.0, "top_k": 3},
        {"logits_processors": {"no_repeat_ngram": 1}},
    ],
)
def test_values_are_those_of_the_models_own_logits(
    make_driver: MakeDriver, plain: Callable[[list[int]], torch.Tensor], registries: Any, edits: dict[str, Any]
) -> None:
    registries.logits_processors.register("no_repeat_ngram", "octavo_models.sampling.no_repeat_ngram:NoRepeatNgram")
    driver = make_driver()
    driver.add("a", prompt(12), SamplingParams(**{"temperature": 0, "logprobs": 3, **edits}))
    _, outputs = run(driver, "a", 5, 64)
    tokens = driver.requests["a"].tokens
    agree(join(outputs), tokens[12:], plain(tokens)[11:-1], 3)


def test_asking_changes_no_token(make_driver: MakeDriver) -> None:
    asked, quiet = make_driver(), make_driver()
    for seed, params in enumerate([{"temperature": 0}, {"temperature": 0.9, "top_p": 0.9}, {"temperature": 1.0, "frequency_penalty": 0.5}]):
        asked.add(str(seed), prompt(20, seed), SamplingParams(logprobs=2, prompt_logprobs=2, **params), seed=seed)
        quiet.add(str(seed), prompt(20, seed), SamplingParams(**params), seed=seed)
    assert asked.generate(8, chunk=9) == quiet.generate(8, chunk=9)


def test_a_prompt_of_nan_fails_alone_before_its_end(make_driver: MakeDriver) -> None:
    driver = make_driver()
    with torch.no_grad():
        driver.runner._loaded.model.embedding.weight[77] = float("nan")
    driver.add("bad", [5, 77, 7, 8, 9, 10], SamplingParams(temperature=0, prompt_logprobs=0))
    driver.add("good", [5, 6, 7], SamplingParams(temperature=0, prompt_logprobs=0))
    result = driver.step({"bad": 4, "good": 3})
    assert (result.errors, result.sound) == ({"bad": BAD_LOGITS}, [])
    assert set(result.prompt_logprobs) == set(result.token_ids) == {"good"}


def test_what_is_known_of_a_prompt_is_not_computed_again(make_driver: MakeDriver) -> None:
    whole, rest = make_driver(), make_driver()
    whole.add("a", prompt(30), BOTH)
    rest.add("a", prompt(30), BOTH, num_prompt_logprobs=17)
    (everything,), _ = run(whole, "a", 1, 64)
    parts, _ = run(rest, "a", 1, 8)
    assert join(parts).token_values() == pytest.approx(everything.token_values()[17:], abs=1e-5)
