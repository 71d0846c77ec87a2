import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from octavo.errors import InvalidRequestError
from octavo.input.length import TakesLongError, beside_streams, is_long, refuse_far_too_long
from octavo.testing.llm import word_backend
from octavo.text.tokenizer import Tokenizer
from octavo.text.tokenizer_settings import TokenizerSettings

CONTEXT = 8
LIMIT = 2 * CONTEXT + 1024


class CountingTokenizer(Tokenizer):
    """Notes how many characters it is given."""

    def __init__(self) -> None:
        super().__init__(TokenizerSettings(backend=word_backend(["a"])))
        self.num_characters = 0

    def encode_batch(self, texts: Sequence[str], *, add_special_tokens: bool) -> list[list[int]]:
        self.num_characters += sum(map(len, texts))
        return super().encode_batch(texts, add_special_tokens=add_special_tokens)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a" * 4095, False),
        ("a" * 4096, True),
        ({"prompt": "a" * 4096}, True),
        ([{"role": "user", "content": "a" * 4096}], True),
        ([1] * 5000, False),
        (None, False),
    ],
)
def test_long_is_what_takes_noticeable_time(prompt: Any, expected: bool) -> None:
    assert is_long(prompt) is expected


def test_a_text_that_is_far_too_long_is_refused_by_its_beginning() -> None:
    tokenizer = CountingTokenizer()
    with pytest.raises(InvalidRequestError, match=f"2,000,000 characters has more than {LIMIT:,} tokens.*context is 8 tokens") as caught:
        refuse_far_too_long("a " * 1_000_000, tokenizer, CONTEXT)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "prompt")
    assert tokenizer.num_characters == LIMIT * 8


def test_a_beginning_without_tokens_says_nothing_of_the_rest() -> None:
    tokenizer = CountingTokenizer()
    with pytest.raises(InvalidRequestError, match="tokens"):
        refuse_far_too_long(" " * 20_000 + "a " * 100_000, tokenizer, CONTEXT)
    refuse_far_too_long(" " * 1_000_000 + "a", tokenizer, CONTEXT)


@pytest.mark.parametrize("num_words", [0, 1, LIMIT, 4 * LIMIT])
def test_a_text_that_is_tokenized_soon_is_left_to_that(num_words: int) -> None:
    tokenizer = CountingTokenizer()
    refuse_far_too_long("a " * num_words, tokenizer, CONTEXT)
    assert tokenizer.num_characters == 0


@pytest.mark.parametrize("length", [10**5, 10**6, 10**7])
def test_at_most_half_of_a_text_is_tokenized_for_it(length: int) -> None:
    tokenizer = CountingTokenizer()
    refuse_far_too_long(" " * length, tokenizer, CONTEXT)
    assert 0 < tokenizer.num_characters <= length / 2


def test_what_takes_long_is_read_in_a_thread() -> None:
    loop_thread, calls = threading.get_ident(), []

    def read(quick: bool) -> str:
        calls.append((quick, threading.get_ident() == loop_thread))
        if quick:
            raise TakesLongError
        return "read"

    assert asyncio.run(beside_streams(read, is_long=False)) == "read"
    assert asyncio.run(beside_streams(read, is_long=True)) == "read"
    assert calls == [(True, True), (False, False), (False, False)]
    assert asyncio.run(beside_streams(lambda quick: quick, is_long=False)) is True
