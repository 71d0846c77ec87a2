"""The committed reference is what Transformers gives, and fit to be compared with."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from octavo.model.source import ModelFiles, resolve_model
from octavo.plugins.manager import load_plugins
from octavo.text.tokenizer import load_tokenizer
from tests.equality.model_file import digest, find_model_file
from tests.equality.recorded import DATA, Recorded
from tests.equality.ties import TIE_GAP

NUM_PROMPTS, NUM_TOKENS = 32, 64
needs_transformers = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs the dependency group `reference`")


def run_script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name(name)
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    """What Octavo takes for `smollm2`."""
    sources = load_plugins().registries.model_sources
    return resolve_model("smollm2", revision=None, offline=True, load_format="auto", sources=sources)


def test_the_reference_was_made_from_the_file_that_octavo_loads(files: ModelFiles) -> None:
    reference = json.loads((DATA / "reference.json").read_text(encoding="utf-8"))
    assert files.weights == (find_model_file(),)
    assert reference["model"] == {"file": files.weights[0].name, "sha256": digest(files.weights[0])}
    assert reference["dtype"] == "float32"


def test_prompts_are_of_mixed_lengths(recorded: list[Recorded]) -> None:
    lengths = sorted(len(one.token_ids) for one in recorded)
    assert len(lengths) == NUM_PROMPTS
    assert (lengths[0], lengths[-1]) == (1, 1500)
    assert {15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 256, 257} <= set(lengths)


def test_continuations_are_complete(recorded: list[Recorded]) -> None:
    for one in recorded:
        rows = (one.continuation.token_ids, one.continuation.runner_up_ids, one.continuation.gaps)
        assert [len(row) for row in rows] == [NUM_TOKENS] * 3
        assert all(gap >= 0 for gap in one.continuation.gaps)
        assert all(best != second for best, second in zip(*rows[:2], strict=True))


def test_quick_prompts_have_no_ties(quick: list[Recorded]) -> None:
    assert min(min(one.continuation.gaps) for one in quick) > 2 * TIE_GAP


def test_texts_are_tokenized_as_by_the_reference(files: ModelFiles, recorded: list[Recorded]) -> None:
    tokenizer = load_tokenizer(files)
    for one in recorded:
        assert tokenizer.encode(one.text, add_special_tokens=True) == list(one.token_ids)
        assert tokenizer.decode(one.token_ids, skip_special_tokens=False) == one.text


@pytest.mark.slow
@needs_transformers
def test_prompts_are_cut_from_the_texts() -> None:
    done = run_script("cut_prompts.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_transformers
def test_transformers_still_gives_the_committed_reference() -> None:
    done = run_script("reference.py", "--check", str(DATA / "reference.json"))
    assert done.returncode == 0, done.stdout + done.stderr
