"""Logits processors and bans in batches that change."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from octavo.plugins.registries import Registries
from octavo.sampling_params import SamplingParams
from octavo_models.runner.sample import BAD_LOGITS, NOTHING_LEFT
from octavo_models.sampling import LogitsProcessor, Sampler, SamplingBatch
from octavo_models.sampling.likeliest import likeliest

MakeDriver = Callable[..., Any]


class Force(LogitsProcessor):
    """The argument is the token that comes after so many output tokens, in turn."""

    def apply(self, logits: torch.Tensor, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32]) -> None:
        assert logits.dtype == torch.float32
        assert logits.shape == (self.vocab_size,)
        assert not prompt_ids.flags.writeable
        token = self.argument[len(output_ids) % len(self.argument)]
        value = logits[token].clone()
        logits.fill_(-torch.inf)
        logits[token] = value


class Echo(LogitsProcessor):
    """Forces the prompt's token of the output's length: right only where prompt and output are told apart."""

    def apply(self, logits: torch.Tensor, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32]) -> None:
        logits[int(prompt_ids[len(output_ids) % len(prompt_ids)])] = 1000


class RaiseAfter(LogitsProcessor):
    """Raises after so many output tokens."""

    def apply(self, logits: torch.Tensor, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32]) -> None:
        logits.fill_(torch.nan)
        if len(output_ids) == self.argument:
            raise KeyError("lost")
        logits.copy_(torch.arange(self.vocab_size))


class Fill(LogitsProcessor):
    """Overwrites everything with the argument."""

    def apply(self, logits: torch.Tensor, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32]) -> None:
        logits.fill_(float(self.argument))


@pytest.fixture(autouse=True)
def processors(registries: Registries) -> None:
    for processor in (Force, Echo, RaiseAfter, Fill):
        registries.logits_processors.register(processor.__name__.lower(), processor)
    registries.logits_processors.register("no_repeat_ngram", "octavo_models.sampling.no_repeat_ngram:NoRepeatNgram")
    registries.logits_processors.register("wrong", "octavo_models.sampling.default:DefaultSampler")
    registries.logits_processors.register("missing", "octavo_models.nowhere:Nothing")


def prompt(length: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(3, 320), k=length)


def params(**more: Any) -> SamplingParams:
    return SamplingParams(**{"temperature": 0, **more})


KINDS = [{}, {"temperature": 0.9, "top_p": 0.95}, {"repetition_penalty": 1.3}, {"min_tokens": 3}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_processor_forces_the_tokens_of_one_request_and_leaves_the_others_alone(
    make_driver: MakeDriver, config: Any, kind: dict[str, Any], dtype: str
) -> None:
    changes = {"load": replace(config.load, dtype=dtype), "cache": replace(config.cache, dtype=dtype)}
    forced, quiet = make_driver(**changes), make_driver(**changes)
    for driver in (forced, quiet):
        driver.add("before", prompt(7, 1), params(**kind), seed=1)
        driver.add("after", prompt(9, 2), params(**kind), seed=2)
    expected = quiet.generate(6)
    forced.add("forced", prompt(5, 3), params(**kind, logits_processors={"force": [11, 12, 13]}), seed=3)
    assert forced.generate(6) == {**expected, "forced": [11, 12, 13, 11, 12, 13]}


def test_it_follows_its_request_to_another_slot_and_goes_with_it(make_driver: MakeDriver) -> None:
    driver = make_driver()
    driver.add("first", prompt(4, 1), params(logits_processors={"force": [50]}))
    driver.add("second", prompt(4, 2))
    driver.add("third", prompt(6, 3), params(logits_processors={"echo": None}))
    driver.generate(2)
    driver.remove("first")
    driver.generate(5)
    assert driver.requests["third"].output == prompt(6, 3)[:5]
    driver.remove("third")
    driver.add("fourth", prompt(4, 2))
    driver.generate(5)
    assert driver.requests["fourth"].output == driver.requests["second"].output[:5]


@pytest.mark.parametrize("processor", [{"force": [11, 12, 13]}, {"echo": None}, {"no_repeat_ngram": 1}])
def test_it_is_made_anew_when_its_request_comes_back(make_driver: MakeDriver, processor: dict[str, Any]) -> None:
    driver, again = make_driver(), make_driver()
    for one in (driver, again):
        one.add("a", prompt(6, 4), params(logits_processors=processor))
    expected = driver.generate(8)["a"]
    produced = again.generate(3)["a"]
    again.remove("a")
    again.add("a", prompt(6, 4), params(logits_processors=processor), output=produced)
    assert again.generate(8)["a"] == expected


def test_several_run_in_the_order_in_which_they_are_named(make_driver: MakeDriver) -> None:
    driver = make_driver()
    driver.add("a", prompt(5), params(logits_processors={"force": [40], "echo": None}))
    driver.add("b", prompt(5), params(logits_processors={"echo": None, "force": [40]}))
    assert driver.generate(2) == {"a": prompt(5)[:2], "b": [40, 40]}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"raiseafter": 2}, "logits processor 'raiseafter' raised KeyError: 'lost'"),
        ({"force": 7}, "logits processor 'force' raised TypeError"),
        ({"no_repeat_ngram": 0}, "'no_repeat_ngram' raised ValueError: 0 is no length of n-grams"),
        ({"unheard": 1}, "'unheard' raised ConfigurationError: unknown logits processor"),
        ({"wrong": 1}, "'wrong' raised PluginError.*no class of octavo_models.sampling.processor.LogitsProcessor"),
        ({"missing": 1}, "'missing' raised PluginError.*does not load"),
        ({"fill": "nan"}, NOTHING_LEFT[:24]),
        ({"fill": "-inf"}, NOTHING_LEFT[:24]),
        ({"fill": "inf"}, NOTHING_LEFT[:24]),
    ],
)
@pytest.mark.parametrize("kind", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_k": 5, "logprobs": 1}])
def test_one_that_fails_ends_its_request_alone(make_driver: MakeDriver, asked: dict[str, Any], said: str, kind: dict[str, Any]) -> None:
    driver, quiet = make_driver(), make_driver()
    for one in (driver, quiet):
        one.add("good", prompt(5, 1), params(**kind), seed=5)
    driver.add("bad", prompt(8, 2), params(**kind, logits_processors=asked))
    errors: dict[str, str] = {}
    while not errors:
        result = driver.step({name: len(request.tokens) - request.num_computed for name, request in driver.requests.items()})
        errors = result.errors
    assert set(errors) == {"bad"}
    assert re.search(said, errors["bad"])
    assert result.sound == ["bad"]
    assert set(result.logprobs) <= {"good"}
    driver.remove("bad")
    assert driver.generate(6) == quiet.generate(6)


def test_nan_of_the_model_is_not_blamed_on_the_request(make_driver: MakeDriver) -> None:
    driver = make_driver()
    with torch.no_grad():
        driver.runner._loaded.model.embedding.weight[77] = float("nan")
    driver.add("forced", [5, 77, 7], params(logits_processors={"fill": 0}))
    driver.add("allowed", [5, 77, 7], params(allowed_token_ids=[9]))
    result = driver.step({"forced": 3, "allowed": 3})
    assert (result.errors, result.sound) == ({"forced": BAD_LOGITS, "allowed": BAD_LOGITS}, [])


def test_what_parameters_forbid_stays_forbidden(make_driver: MakeDriver) -> None:
    driver = make_driver()
    driver.add("allowed", prompt(5), params(allowed_token_ids=[30, 31], logits_processors={"echo": None}))
    driver.add("early", prompt(5), params(min_tokens=4, logits_processors={"fill": 1}, logit_bias={2: 100.0}))
    driver.add("bad", prompt(5), params(logits_processors={"echo": None}), bad_sequences=[[prompt(5)[0]]])
    outputs = driver.generate(4)
    assert set(outputs["allowed"]) <= {30, 31}
    assert 2 not in outputs["early"]
    assert outputs["bad"][0] != prompt(5)[0]


def test_parameters_that_leave_nothing_end_the_request_and_say_so(make_driver: MakeDriver) -> None:
    driver = make_driver()
    driver.add("none", prompt(5), params(allowed_token_ids=[30]), bad_sequences=[[30]])
    driver.add("good", prompt(5))
    result = driver.step({"none": 5, "good": 5})
    assert (result.errors, result.sound, set(result.token_ids)) == ({"none": NOTHING_LEFT}, ["none"], {"good"})


@pytest.mark.parametrize("kind", [{}, {"temperature": 1.0}])
def test_bad_sequences_are_never_completed_whatever_else_is_asked(make_driver: MakeDriver, kind: dict[str, Any]) -> None:
    free = make_driver()
    free.add("a", prompt(9), params(**kind), seed=1)
    first, second, third = free.generate(3)["a"]
    driver = make_driver()
    driver.add("other", prompt(3, 8))
    driver.add("a", prompt(9), params(**kind), seed=1, bad_sequences=[[first, second, third]])
    assert driver.generate(3)["a"][:2] == [first, second]
    assert driver.requests["a"].output[2] != third
    produced = driver.requests["a"].output[:2]
    driver.remove("a")
    driver.add("a", prompt(9), params(**kind), seed=1, output=produced, bad_sequences=[[first, second, third]])
    assert driver.generate(3)["a"][2] != third


class PlainSampler(Sampler):
    """A stranger's, which only takes the likeliest."""

    def sample(self, logits: torch.Tensor, batch: SamplingBatch) -> torch.Tensor:
        return likeliest(logits)


def test_processors_and_logprobs_work_with_any_sampler(make_driver: MakeDriver, registries: Registries) -> None:
    registries.samplers.register("plain", PlainSampler)
    driver = make_driver(sampler="plain")
    driver.add("forced", prompt(5), params(logits_processors={"force": [11]}, logprobs=1))
    driver.add("empty", prompt(5), params(logits_processors={"fill": "-inf"}))
    result = driver.step({"forced": 5, "empty": 5})
    assert (result.token_ids, result.errors) == ({"forced": [11]}, {"empty": NOTHING_LEFT})
    assert len(result.logprobs["forced"]) == 1
