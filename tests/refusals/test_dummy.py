"""`--load-format dummy`: the shape of a model is enough to run it."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from octavo import LLM, SamplingParams
from octavo.errors import CheckpointError, InvalidRequestError, ModelNotFoundError
from octavo_models.testing import write_tiny_gguf
from tests.refusals.engine import PROMPT, Finished, answer


@pytest.fixture
def shape(tiny: Path, tmp_path: Path) -> Path:
    """A folder with nothing but a `config.json`."""
    (tmp_path / "shape").mkdir()
    shutil.copy(tiny / "config.json", tmp_path / "shape")
    return tmp_path / "shape"


def test_weights_are_the_same_for_the_same_seed_and_need_no_file(
    shape: Path, tiny: Path, tokens: Callable[..., list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    first = tokens(shape, load_format="dummy", seed=1)
    assert "are random" in caplog.text
    assert first == tokens(shape / "config.json", load_format="dummy", seed=1)
    assert first == tokens(tiny, load_format="dummy", seed=1)
    assert first != tokens(shape, load_format="dummy", seed=2)
    assert tokens(shape, load_format="dummy") == tokens(shape, load_format="dummy", seed=0)
    assert first != tokens(tiny)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_activations_stay_finite(shape: Path, start: Callable[..., LLM], dtype: str) -> None:
    llm = start(shape, load_format="dummy", dtype=dtype)
    (output,) = llm.generate([PROMPT * 30], SamplingParams(max_tokens=30, ignore_eos=True, temperature=1.0), use_tqdm=False)
    assert len(set(output.outputs[0].token_ids)) > 10


def test_without_a_tokenizer_prompts_are_token_ids_and_answers_have_no_text(shape: Path, start: Callable[..., LLM]) -> None:
    llm = start(shape, load_format="dummy")
    before = answer(llm)
    (output,) = llm.generate([PROMPT], SamplingParams(max_tokens=3), use_tqdm=False)
    assert output.outputs[0].text == ""
    for prompt in ("hello", {"prompt": "hello"}, ["hello"]):
        with pytest.raises(InvalidRequestError, match="this model has no tokenizer, so a prompt must be a list of token ids"):
            llm.generate(prompt, use_tqdm=False)
    with pytest.raises(InvalidRequestError, match="no chat template"):
        llm.chat([{"role": "user", "content": "hello"}], use_tqdm=False)
    with pytest.raises(InvalidRequestError, match="stop strings need text, and this model has no tokenizer") as caught:
        llm.generate([PROMPT], SamplingParams(stop=["x"]), use_tqdm=False)
    assert caught.value.param == "stop"
    assert answer(llm) == before
    assert llm.stats().kv_usage == 0


def test_a_tokenizer_that_is_there_is_used(tiny: Path, start: Callable[..., LLM]) -> None:
    (output,) = start(tiny, load_format="dummy").generate("hello", SamplingParams(max_tokens=5, ignore_eos=True), use_tqdm=False)
    assert output.outputs[0].text


def test_of_a_gguf_file_the_header_is_enough(tmp_path: Path, start: Callable[..., LLM]) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", quantization="Q8_0")
    path.write_bytes(path.read_bytes()[:-80_000])
    with pytest.raises(CheckpointError, match="truncated"):
        start(path)
    for model in (path, tmp_path):
        llm = start(model, load_format="dummy")
        (output,) = llm.generate("hello", SamplingParams(max_tokens=5, ignore_eos=True), use_tqdm=False)
        assert output.outputs[0].text


def test_what_says_no_shape_is_refused(tmp_path: Path, tiny: Path, start: Callable[..., LLM], generate: Callable[..., Finished]) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelNotFoundError, match=r"expected a config\.json, or one GGUF file"):
        start(tmp_path / "empty", load_format="dummy")
    with pytest.raises(CheckpointError, match=r"give a GGUF file, a config\.json or its folder"):
        start(tiny / "model.safetensors", load_format="dummy")
    assert "says no shape of a model" in generate(tmp_path / "empty", "--load-format", "dummy").error


def test_the_program_runs_it(shape: Path, tiny: Path, octavo: Callable[..., Finished]) -> None:
    flags = ("--load-format", "dummy", "--num-blocks", "12", "--raw", "hello", "--max-tokens", "3")
    assert octavo("generate", "--model", tiny, *flags).code == 0
    finished = octavo("generate", "--model", shape, *flags)
    assert finished.code == 2
    assert "no tokenizer" in finished.error


def test_a_hundred_million_weights_take_a_moment() -> None:
    from octavo_models.loading.dummy import fill_with_noise

    model = torch.nn.Linear(10_000, 10_000, bias=False, dtype=torch.bfloat16)
    started = time.perf_counter()
    fill_with_noise(model, 0)
    assert time.perf_counter() - started < 5
    assert abs(float(model.weight.detach().float().std()) - 0.01) < 1e-4
