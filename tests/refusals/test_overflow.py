"""A type that is too narrow for a model: a warning at the start, and an error instead of an answer made of token 0."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo import LLM
from octavo.errors import RequestFailedError
from octavo.types import FinishReason
from octavo_models.testing import tiny_llama_config, tiny_llama_weights, write_tiny_llama, write_weights
from tests.refusals.engine import GREEDY, PROMPT, Finished, answer

SAID = "NaN or infinite logits"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A model stored in bfloat16 with one matrix whose products float16 cannot hold."""
    folder = write_tiny_llama(tmp_path / "large", dtype="bfloat16")
    weights = tiny_llama_weights(tiny_llama_config(), 0)
    weights["model.layers.0.mlp.down_proj.weight"] *= 1e5
    write_weights(folder, weights, dtype="bfloat16")
    return folder


def test_the_type_that_is_stored_holds_it(large: Path, start: Callable[..., LLM]) -> None:
    assert start(large).engine.config.load.dtype == "bfloat16"
    assert len(answer(start(large))) == 6


def test_a_forced_narrower_type_warns_and_its_requests_fail(
    large: Path, start: Callable[..., LLM], caplog: pytest.LogCaptureFixture
) -> None:
    llm = start(large, dtype="float16")
    assert "float16 holds no more than 65,504 and the model is stored in bfloat16" in caplog.text
    for _ in range(2):
        with pytest.raises(RequestFailedError, match=SAID) as caught:
            llm.generate([PROMPT, PROMPT[::-1]], GREEDY, use_tqdm=False)
        assert [output.outputs[0].finish_reason for output in caught.value.outputs] == [FinishReason.ERROR] * 2
        assert [output.outputs[0].token_ids for output in caught.value.outputs] == [[], []]
        stats = llm.stats()
        assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)


def test_the_program_fails_and_answers_nothing(large: Path, generate: Callable[..., Finished]) -> None:
    finished = generate(large, "--dtype", "float16")
    assert finished.code == 1
    assert SAID in finished.error


@pytest.mark.parametrize(("stored", "dtype"), [("float32", "float16"), ("float32", "bfloat16"), ("float16", "bfloat16")])
def test_other_narrowings_warn_too(
    tmp_path: Path, stored: str, dtype: str, start: Callable[..., LLM], caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_tiny_llama(tmp_path / "tiny", dtype=stored)
    start(folder, dtype=dtype)
    assert [record for record in caplog.records if record.levelno == logging.WARNING and stored in record.message]


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16"])
def test_what_loses_nothing_is_silent(tmp_path: Path, dtype: str, start: Callable[..., LLM], caplog: pytest.LogCaptureFixture) -> None:
    start(write_tiny_llama(tmp_path / "tiny", dtype="bfloat16"), dtype=dtype)
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]
