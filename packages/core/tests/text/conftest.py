"""Two tiny tokenizers, one of each kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.model.gguf_metadata import GGUFMetadata
from octavo.text.byte_alphabet import BYTE_OF_CHARACTER
from octavo.text.gguf_tokenizer import read_gguf_tokenizer
from octavo.text.tokenizer import Tokenizer

SPECIAL = ["<|end|>", "<|start|>"]
MERGES = [
    "h e",
    "l l",
    "he ll",
    "hell o",
    "Ġ hello",
    "Ġ Ġ",
    "Ġ w",
    "o r",
    "or l",
    "Ġw orl",
    "Ġworl d",
    "ð Ł",
    "ðŁ ĺ",
    "Ã ©",
    "1 2",
    "12 3",
    "a b",
    "b c",
]
PIECES = {
    "▁": -1.0,
    "he": -2.0,
    "ll": -3.0,
    "▁he": -4.0,
    "llo": -5.0,
    "▁hello": -6.0,
    "▁w": -7.0,
    "or": -8.0,
    "▁▁": -9.0,
    "ab": -10.0,
    "bc": -11.0,
}


def byte_level_values(**changes: Any) -> dict[str, Any]:
    """GGUF key-values of a byte-level tokenizer; a change to None removes a key, `__` in a name stands for a dot."""
    alphabet = [chr(code) for code in sorted(BYTE_OF_CHARACTER)]
    tokens = [*SPECIAL, *alphabet, *(merge.replace(" ", "") for merge in MERGES), "[tool]"]
    values = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL) - 1) + [4],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 0,
    }
    return changed(values, changes)


def sentence_piece_values(**changes: Any) -> dict[str, Any]:
    """GGUF key-values of a SentencePiece tokenizer."""
    characters = {character: -20.0 - index for index, character in enumerate("hello wrdabc.é".replace(" ", ""))}
    scores = {"<unk>": 0.0, "<s>": 0.0, "</s>": 0.0, **{f"<0x{byte:02X}>": 0.0 for byte in range(256)}, **PIECES, **characters}
    values = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": list(scores),
        "tokenizer.ggml.scores": list(scores.values()),
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * (len(scores) - 259),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    return changed(values, changes)


def changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    values |= {f"tokenizer.{name.replace('__', '.')}": value for name, value in changes.items()}
    return {key: value for key, value in values.items() if value is not None}


def metadata(values: dict[str, Any]) -> GGUFMetadata:
    return GGUFMetadata(path=Path("tiny.gguf"), version=3, alignment=32, values=values, tensors={})


@pytest.fixture(scope="session")
def make_byte_level() -> Callable[..., Tokenizer]:
    """`make_byte_level(ggml__pre="qwen2")` -> a tokenizer with changed key-values."""
    return lambda **changes: Tokenizer(read_gguf_tokenizer(metadata(byte_level_values(**changes))))


@pytest.fixture(scope="session")
def make_sentence_piece() -> Callable[..., Tokenizer]:
    """`make_sentence_piece(ggml__add_space_prefix=False)` -> a tokenizer with changed key-values."""
    return lambda **changes: Tokenizer(read_gguf_tokenizer(metadata(sentence_piece_values(**changes))))


@pytest.fixture(scope="session")
def byte_level(make_byte_level: Callable[..., Tokenizer]) -> Tokenizer:
    return make_byte_level()


@pytest.fixture(scope="session")
def sentence_piece(make_sentence_piece: Callable[..., Tokenizer]) -> Tokenizer:
    return make_sentence_piece()


@pytest.fixture(scope="session", params=["byte_level", "sentence_piece"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each of the two."""
    found: Tokenizer = request.getfixturevalue(request.param)
    return found
