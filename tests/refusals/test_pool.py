"""Pools that are too small: refused at the start or at the door, and what fits runs to the last block."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo import LLM, SamplingParams
from octavo.config import machine
from octavo.errors import ConfigurationError, InvalidRequestError
from octavo.types import FinishReason
from octavo_models.runner import memory_profile
from octavo_models.testing import write_tiny_llama
from tests.refusals.engine import Finished, answer

LONG = SamplingParams(temperature=0, max_tokens=400, ignore_eos=True)


def lengths(llm: LLM, prompts: list[list[int]], params: SamplingParams = LONG) -> list[tuple[int, FinishReason | None]]:
    outputs = llm.generate(prompts, params, use_tqdm=False)
    stats = llm.stats()
    assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)
    return [(len(output.outputs[0].token_ids), output.outputs[0].finish_reason) for output in outputs]


def test_a_length_that_the_pool_cannot_hold_is_refused_at_the_start(
    tiny: Path, start: Callable[..., LLM], octavo: Callable[..., Finished]
) -> None:
    said = (
        "max_model_len 512 needs 256.00 KiB of KV cache (32 blocks) and 80.00 KiB (10 blocks) are available: "
        "give max_model_len 160 or less, or a larger kv_cache_memory_bytes or num_blocks"
    )
    with pytest.raises(ConfigurationError) as caught:
        start(tiny, num_blocks=10, max_model_len=512)
    assert str(caught.value) == said
    finished = octavo("generate", "--model", tiny, "--num-blocks", "10", "--max-model-len", "512", "hello")
    assert finished.code == 2
    assert said in finished.error


@pytest.fixture(params=[True, False], ids=["cached", "uncached"])
def ten_blocks(request: pytest.FixtureRequest, tiny: Path, start: Callable[..., LLM]) -> Iterator[LLM]:
    """A pool of 160 tokens for a model of 512, which then takes no more than 160."""
    llm = start(tiny, num_blocks=10, max_model_len=None, enable_prefix_caching=request.param)
    assert llm.engine.info.max_model_len == 160
    before = answer(llm)
    yield llm
    assert answer(llm) == before


def test_a_length_that_was_left_open_is_reduced_with_a_warning_and_longer_prompts_are_refused_at_the_door(
    ten_blocks: LLM, caplog: pytest.LogCaptureFixture
) -> None:
    assert "max_model_len is reduced to 160" in caplog.get_records("setup")[0].message
    with pytest.raises(InvalidRequestError, match=r"200 tokens.*context is 160") as caught:
        ten_blocks.generate([[5] * 200], LONG, use_tqdm=False)
    assert caught.value.code == "context_length_exceeded"
    assert lengths(ten_blocks, [[6] * 3], SamplingParams(max_tokens=5, ignore_eos=True)) == [(5, FinishReason.LENGTH)]


def test_a_prompt_that_leaves_room_for_one_token_gets_it(ten_blocks: LLM) -> None:
    assert lengths(ten_blocks, [[5] * 159]) == [(1, FinishReason.LENGTH)]


def test_a_request_that_outgrows_the_pool_ends_where_the_pool_does(ten_blocks: LLM) -> None:
    assert lengths(ten_blocks, [[5] * 100]) == [(60, FinishReason.LENGTH)]
    assert ten_blocks.stats().counters.preemptions == 0


def test_several_that_outgrow_the_pool_together_take_turns(ten_blocks: LLM) -> None:
    prompts = [[5 + index] * 30 for index in range(4)]
    assert lengths(ten_blocks, prompts) == [(130, FinishReason.LENGTH)] * 4
    assert ten_blocks.stats().counters.preemptions > 0


@pytest.mark.parametrize(
    "flags",
    [
        {"num_blocks": 1, "max_model_len": None},
        {"num_blocks": 1, "block_size": 256, "max_model_len": None},
        {"num_blocks": 1, "block_size": 8, "max_model_len": None},
        {"max_num_batched_tokens": 1, "max_num_seqs": 1},
        {"max_num_batched_tokens": 1, "max_num_seqs": 1, "num_blocks": 1, "block_size": 8, "max_model_len": 8},
        {"max_num_seqs": 1, "long_prefill_token_threshold": 1},
        {"block_size": 256, "num_blocks": 2, "max_num_seqs": 32},
    ],
)
@pytest.mark.parametrize("caching", [True, False])
def test_the_smallest_engines_answer_as_the_others(
    tiny: Path, start: Callable[..., LLM], tokens: Callable[..., list[int]], flags: dict[str, Any], caching: bool
) -> None:
    llm = start(tiny, enable_prefix_caching=caching, **flags)
    room = min(12, llm.engine.info.max_model_len - 3)
    assert answer(llm) == tokens(tiny)[:room]
    params = SamplingParams(n=3, max_tokens=room, ignore_eos=True, temperature=1.0, seed=1)
    outputs = llm.generate([[5, 6, 7], [6, 7]], params, use_tqdm=False)
    assert all(len(choice.token_ids) == room for output in outputs for choice in output.outputs)
    stats = llm.stats()
    assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)


@pytest.fixture
def poor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 2 MiB available when the pool is sized."""
    real = machine.read_machine()
    monkeypatch.setattr(memory_profile, "read_machine", lambda: type(real)(**vars(real) | {"available_memory": 2 << 20}))


@pytest.mark.usefixtures("poor")
def test_a_model_whose_own_length_does_not_fit_starts_with_what_does(
    tmp_path: Path, start: Callable[..., LLM], caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_tiny_llama(tmp_path / "long", max_position_embeddings=40960)
    llm = start(folder, max_model_len=None, num_blocks=None)
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith("max_model_len 40,960 needs 20.00 MiB of KV cache (2,560 blocks) and 1.00 MiB (128 blocks) are available")
    assert llm.engine.info.max_model_len == 2048
    assert lengths(llm, [[5] * 2047]) == [(1, FinishReason.LENGTH)]


@pytest.mark.usefixtures("poor")
def test_a_length_that_was_asked_for_is_refused_with_needed_available_and_the_largest_that_fits(
    tmp_path: Path, start: Callable[..., LLM]
) -> None:
    folder = write_tiny_llama(tmp_path / "long", max_position_embeddings=40960)
    with pytest.raises(ConfigurationError, match=r"needs 20\.00 MiB .* and 1\.00 MiB .* are available: give max_model_len 2048 or less"):
        start(folder, max_model_len=40960, num_blocks=None)
