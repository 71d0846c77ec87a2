import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.text.detokenizer import IncrementalDetokenizer
from octavo.text.tokenizer import Tokenizer


def stream(tokenizer: Tokenizer, chunks: list[list[int]], *, skip: bool = True, prompt: list[int] | None = None) -> list[str]:
    detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=skip, prompt_token_ids=prompt or [])
    return [*(detokenizer.append(chunk) for chunk in chunks), detokenizer.finish()]


def single(tokenizer: Tokenizer, text: str) -> list[list[int]]:
    return [[token_id] for token_id in tokenizer.encode(text, add_special_tokens=False)]


CHUNKS = st.lists(st.lists(st.integers(0, 300), max_size=4), max_size=12)


@settings(deadline=None)
@given(chunks=CHUNKS, skip=st.booleans())
def test_any_ids_in_any_chunks_join_to_the_whole(tokenizer: Tokenizer, chunks: list[list[int]], skip: bool) -> None:
    ids = [token_id for chunk in chunks for token_id in chunk]
    assert "".join(stream(tokenizer, chunks, skip=skip)) == tokenizer.decode(ids, skip_special_tokens=skip)


@settings(deadline=None)
@given(text=st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\ufffd"), max_size=20))
def test_valid_text_never_shows_a_replacement_character(tokenizer: Tokenizer, text: str) -> None:
    assert not any("\ufffd" in delta for delta in stream(tokenizer, single(tokenizer, text)))


@settings(deadline=None)
@given(prompt=st.lists(st.integers(0, 300), max_size=10), ids=st.lists(st.integers(0, 300), max_size=10))
def test_with_its_prompt_the_output_is_what_follows_the_prompts_text(tokenizer: Tokenizer, prompt: list[int], ids: list[int]) -> None:
    kept = [token_id for token_id in prompt if token_id not in tokenizer.special_token_ids]
    finished = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(b"".join(map(tokenizer.token_bytes, kept)))
    before = finished.removeprefix(" ") if tokenizer.strips_leading_space else finished
    assert before + "".join(stream(tokenizer, [ids], prompt=prompt)) == tokenizer.decode(prompt + ids, skip_special_tokens=True)


@pytest.mark.parametrize("text", ["😀", "ก็", "漢字", "příliš", "👨‍👩‍👧"])
def test_a_character_spread_over_tokens_is_held_until_it_is_whole(byte_level: Tokenizer, text: str) -> None:
    deltas = stream(byte_level, single(byte_level, text))
    assert "".join(deltas) == text
    assert all(delta in text for delta in deltas)
    assert len(deltas) > len(text)


def test_a_character_that_never_ends_is_one_replacement_character(byte_level: Tokenizer) -> None:
    chunks = single(byte_level, "a😀")[:-1]
    assert stream(byte_level, chunks)[-1] == "\ufffd"
    assert "".join(stream(byte_level, chunks)) == "a\ufffd"


def test_the_space_that_sentence_piece_puts_first_is_no_text(sentence_piece: Tokenizer) -> None:
    assert stream(sentence_piece, single(sentence_piece, "hello wor"))[:3] == ["hello", " w", "or"]


def test_after_a_prompt_the_space_is_text(sentence_piece: Tokenizer) -> None:
    prompt = sentence_piece.encode("hello", add_special_tokens=True)
    assert "".join(stream(sentence_piece, single(sentence_piece, "hello"), prompt=prompt)) == " hello"
    assert "".join(stream(sentence_piece, single(sentence_piece, "hello"), prompt=[1])) == "hello"


def test_special_tokens_are_shown_only_when_asked_for(byte_level: Tokenizer) -> None:
    chunks = single(byte_level, "ab<|end|>")
    assert "".join(stream(byte_level, chunks, skip=True)) == "ab"
    assert "".join(stream(byte_level, chunks, skip=False)) == "ab<|end|>"
