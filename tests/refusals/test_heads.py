"""Whether the head is the embedding is what the configuration says, whatever else the file holds."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo import LLM
from octavo.errors import CheckpointError
from octavo_models.testing import tiny_llama_config, tiny_llama_weights, write_safetensors
from tests.refusals.engine import answer


def write(folder: Path, *, tied: bool, head: str) -> Path:
    """The weights of one and the same model; its head is "missing", "equal" to the embedding or its "own"."""
    weights = tiny_llama_weights(tiny_llama_config(tie_word_embeddings=False), 0)
    if head == "missing":
        del weights["lm_head.weight"]
    if head == "equal":
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    write_safetensors(folder / "model.safetensors", weights)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tie_word_embeddings": tied}))
    return folder


def test_a_tied_head_is_the_embedding_and_an_untied_one_is_its_own(copied: Path, start: Callable[..., LLM]) -> None:
    missing = answer(start(write(copied, tied=True, head="missing")))
    assert missing == answer(start(write(copied, tied=True, head="equal")))
    own = answer(start(write(copied, tied=False, head="own")))
    assert own != missing
    assert missing == answer(start(write(copied, tied=False, head="equal")))


def test_a_file_that_contradicts_its_configuration_is_believed_with_a_warning(
    copied: Path, start: Callable[..., LLM], caplog: pytest.LogCaptureFixture
) -> None:
    own = answer(start(write(copied, tied=False, head="own")))
    assert not caplog.records
    assert own == answer(start(write(copied, tied=True, head="own")))
    assert "lm_head.weight is used" in caplog.text


def test_an_untied_head_has_to_be_there(copied: Path, start: Callable[..., LLM]) -> None:
    with pytest.raises(CheckpointError, match=r"lacks tensors that the model needs: lm_head\.weight$"):
        start(write(copied, tied=False, head="missing"))
