import logging
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from octavo.config.engine import EngineConfig
from octavo.errors import ConfigurationError, PluginError
from octavo.plugins.registries import Registries
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import StepPlan
from octavo_models.llama import LlamaLayer, LlamaModel
from octavo_models.loading.loader import load_model
from octavo_models.model import PiecewiseLayer
from octavo_models.runner.runner import TorchModelRunner
from octavo_models.runner.sample import BAD_LOGITS
from octavo_models.sampling import Sampler, SamplingBatch
from octavo_models.sampling.likeliest import likeliest

MakeDriver = Callable[..., Any]

PENALIZED = SamplingParams(temperature=0, repetition_penalty=1.4, frequency_penalty=0.5, presence_penalty=0.3)
SAMPLED = SamplingParams(temperature=0.9, top_p=0.95, logit_bias={5: 2.0}, min_tokens=3)


def prompt(length: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(3, 320), k=length)


def dense_continuation(config: EngineConfig, tokens: list[int], count: int) -> list[int]:
    """Greedy continuation by the whole sequence at each step, with attention straight from its definition: no cache, pages or batch."""
    model = load_model(config, LlamaModel, torch.float32, progress=False)
    tokens = list(tokens)
    for _ in range(count):
        positions = torch.arange(len(tokens))
        carry = model.embed(torch.tensor(tokens))
        for layer in model.layers:
            inputs, carry = layer.before(positions, model.rotary_table(512), carry)
            query, key, value = (heads.transpose(0, 1) for heads in inputs)
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
            carry = layer.after(attended.transpose(0, 1).contiguous(), carry)
        tokens.append(int(model.logits(model.final(carry))[-1].argmax()))
    return tokens[-count:]


@pytest.mark.parametrize("length", [1, 7, 8, 9, 40])
def test_continues_a_prompt_as_the_dense_model_does(make_driver: MakeDriver, config: EngineConfig, length: int) -> None:
    driver = make_driver()
    driver.add("a", prompt(length))
    with torch.inference_mode():
        expected = dense_continuation(config, prompt(length), 12)
    assert driver.generate(12)["a"] == expected


@pytest.mark.parametrize("params", [SamplingParams(temperature=0), SAMPLED, PENALIZED])
@pytest.mark.parametrize("chunk", [1, 5, 8, 16])
def test_a_prompt_in_chunks_gives_what_it_gives_at_once(make_driver: MakeDriver, params: SamplingParams, chunk: int) -> None:
    whole, chunked = make_driver(), make_driver()
    for driver in (whole, chunked):
        driver.add("a", prompt(37), params, seed=11)
    assert chunked.generate(10, chunk=chunk) == whole.generate(10)


def test_requests_of_a_batch_get_what_each_gets_alone(make_driver: MakeDriver) -> None:
    requests = {"a": (prompt(20, 1), SAMPLED), "b": (prompt(3, 2), SamplingParams(temperature=0)), "c": (prompt(31, 3), PENALIZED)}
    together = make_driver()
    alone = {}
    for seed, (name, (tokens, params)) in enumerate(requests.items()):
        together.add(name, tokens, params, seed=seed)
        single = make_driver()
        single.add(name, tokens, params, seed=seed)
        alone |= single.generate(9)
    assert together.generate(9, chunk=11) == alone


@pytest.mark.parametrize("params", [SamplingParams(temperature=0), SAMPLED, PENALIZED])
def test_a_request_added_again_with_its_output_goes_on_as_if_it_had_stayed(make_driver: MakeDriver, params: SamplingParams) -> None:
    driver = make_driver()
    driver.add("other", prompt(6, 5))
    driver.add("a", prompt(12), params, seed=4)
    expected = driver.generate(12)["a"]
    again = make_driver()
    again.add("a", prompt(12), params, seed=4)
    again.add("other", prompt(6, 5))
    produced = again.generate(5)["a"]
    again.remove("a")
    again.add("a", prompt(12), params, output=produced, seed=4)
    assert again.generate(12)["a"] == expected


def test_requests_that_come_and_go_leave_the_others_alone(make_driver: MakeDriver) -> None:
    quiet, busy = make_driver(), make_driver()
    for driver in (quiet, busy):
        driver.add("first", prompt(5, 9), PENALIZED)
        driver.add("stays", prompt(10), SAMPLED, seed=8)
        driver.step({"first": 5, "stays": 10})
    for number in range(8):
        name = f"guest{number}"
        busy.add(name, prompt(4 + number, number), PENALIZED)
        busy.step({name: 4 + number, "stays": 1})
        quiet.step({"stays": 1})
        if number == 0:
            busy.remove("first")
        busy.remove(name)
    assert busy.requests["stays"].output == quiet.requests["stays"].output


def test_a_prompt_whose_start_is_cached_continues_from_there(make_driver: MakeDriver) -> None:
    driver = make_driver()
    driver.add("a", prompt(24))
    expected = driver.generate(6)["a"]
    driver.add("b", prompt(24))
    request = driver.requests["b"]
    request.blocks, request.num_computed = driver.requests["a"].blocks[:2], 16
    assert driver.generate(6)["b"] == expected


def test_a_step_in_which_nobody_samples_gives_no_tokens(make_driver: MakeDriver) -> None:
    driver = make_driver()
    driver.add("a", prompt(20))
    assert driver.step({"a": 12}).token_ids == {}


def test_a_plan_without_tokens_only_removes(make_driver: MakeDriver) -> None:
    driver = make_driver()
    driver.add("a", prompt(4))
    driver.generate(2)
    driver.remove("a")
    assert driver.step({}).token_ids == {}
    driver.add("a", prompt(4))
    assert len(driver.generate(2)["a"]) == 2


@pytest.mark.parametrize("params", [SamplingParams(temperature=0), SAMPLED])
def test_a_request_with_nan_logits_fails_and_the_others_are_unharmed(make_driver: MakeDriver, params: SamplingParams) -> None:
    driver, clean = make_driver(), make_driver()
    model = driver.runner._loaded.model
    with torch.no_grad():
        model.embedding.weight[77] = float("nan")
    for one in (driver, clean):
        one.add("good", [5, 6, 7], params, seed=2)
    driver.add("bad", [5, 77, 7], params)
    result = driver.step({"bad": 3, "good": 3})
    assert result.errors == {"bad": BAD_LOGITS}
    assert set(result.token_ids) == {"good"}
    driver.remove("bad")
    assert driver.generate(8)["good"] == clean.generate(8)["good"]


def test_blocks_of_a_failed_request_are_fit_for_others(make_driver: MakeDriver) -> None:
    driver, clean = make_driver(), make_driver()
    with torch.no_grad():
        driver.runner._loaded.model.embedding.weight[77] = float("nan")
    driver.add("bad", [77] * 16)
    driver.step({"bad": 16})
    driver.remove("bad")
    for one in (driver, clean):
        one.add("next", [5, 6, 7])
    assert driver.generate(4) == clean.generate(4)


class PlainSampler(Sampler):
    """A stranger's sampler, which knows nothing of broken rows."""

    def sample(self, logits: torch.Tensor, batch: SamplingBatch) -> torch.Tensor:
        assert logits.isfinite().all()
        return likeliest(logits)


def test_a_sampler_that_does_not_mark_bad_rows_never_sees_them(make_driver: MakeDriver, registries: Registries) -> None:
    registries.samplers.register("plain", PlainSampler)
    driver = make_driver(sampler="plain")
    with torch.no_grad():
        driver.runner._loaded.model.embedding.weight[77] = float("nan")
    driver.add("good", [5, 6, 7])
    driver.add("bad", [5, 77, 7])
    result = driver.step({"good": 3, "bad": 3})
    assert (set(result.token_ids), set(result.errors)) == ({"good"}, {"bad"})


def test_the_cache_may_have_a_type_of_its_own(make_driver: MakeDriver, config: EngineConfig) -> None:
    exact, rough = make_driver(), make_driver(cache=replace(config.cache, dtype="bfloat16"))
    for driver in (exact, rough):
        driver.add("a", prompt(20))
    assert rough.runner._step.sampler.pool.caches[0][0].dtype == torch.bfloat16
    assert rough.generate(1) == exact.generate(1)


def test_the_pool_is_sized_and_the_two_lines_are_logged(
    config: EngineConfig, registries: Registries, caplog: pytest.LogCaptureFixture
) -> None:
    runner = TorchModelRunner(config, registries)
    runner.load()
    with caplog.at_level(logging.INFO, logger="octavo"):
        size = runner.allocate_pool()
    assert (size.num_blocks, size.max_model_len) == (60, 128)
    assert "KV cache size: 480 tokens" in caplog.text
    assert "Maximum concurrency for 128 tokens per request: 3.75x" in caplog.text
    runner.shutdown()
    runner.shutdown()


def test_decisions_say_backend_and_threads_with_reasons(make_driver: MakeDriver) -> None:
    decisions = {decision.name: decision for decision in make_driver().runner.decisions}
    assert decisions["attention_backend"].value == "sdpa"
    assert int(decisions["threads"].value) >= 1
    assert all(decision.reason for decision in decisions.values())


def test_the_machine_is_described_without_a_model(registries: Registries) -> None:
    made = {decision.name for decision in TorchModelRunner.describe(registries)}
    assert made - {"cpu_isa", "affinity", "weight_pages"} == {"attention_backend", "linear_method", "threads"}


def test_an_unknown_architecture_is_refused_with_what_there_is(config: EngineConfig, registries: Registries) -> None:
    runner = TorchModelRunner(replace(config, model=replace(config.model, architecture="mystery")), registries)
    with pytest.raises(ConfigurationError, match=r"'mystery'.*llama.*plugin"):
        runner.load()


def test_a_plugin_that_registers_something_else_is_named(config: EngineConfig, registries: Registries) -> None:
    registries.models.owned_by("stranger").register("odd", dict)
    runner = TorchModelRunner(replace(config, model=replace(config.model, architecture="odd")), registries)
    with pytest.raises(PluginError, match="stranger"):
        runner.load()


class FarSightedModel(LlamaModel):
    """Sees more than its configuration says."""

    def make_layer(self, index: int) -> PiecewiseLayer:
        return LlamaLayer(replace(self.config, sliding_window=None), self.dtype, index=index)


def test_a_model_that_looks_beyond_its_window_is_refused(config: EngineConfig, registries: Registries) -> None:
    registries.models.owned_by("stranger").register("far", FarSightedModel)
    runner = TorchModelRunner(replace(config, model=replace(config.model, architecture="far", sliding_window=8)), registries)
    runner.load()
    with pytest.raises(PluginError, match=r"layer 0 .* sees every token, .* window of 8"):
        runner.allocate_pool()


def test_a_plan_that_runs_tokens_nobody_has_is_a_bug(make_driver: MakeDriver) -> None:
    driver = make_driver()
    driver.add("a", prompt(4))
    driver.step({"a": 2})
    plan = StepPlan(step_id=1, removed=[], added=[], continued=[], num_tokens={"a": 9}, num_output_tokens={})
    with pytest.raises(AssertionError, match="not there yet"):
        driver.runner.execute(plan)
