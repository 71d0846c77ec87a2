import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.errors import CheckpointError
from octavo.text.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]


def spelled(tokenizer: Tokenizer, text: str) -> list[str | None]:
    return [tokenizer.token(token_id) for token_id in tokenizer.encode(text, add_special_tokens=False)]


def test_merges_apply_in_their_order(byte_level: Tokenizer) -> None:
    assert spelled(byte_level, "hello hello world") == ["hello", "Ġhello", "Ġworld"]
    assert spelled(byte_level, "abc") == ["ab", "c"]


def test_special_and_user_defined_tokens_are_found_in_text(byte_level: Tokenizer) -> None:
    assert spelled(byte_level, "<|start|>ab[tool]<|end|>") == ["<|start|>", "ab", "[tool]", "<|end|>"]
    assert byte_level.special_token_ids == {0, 1}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("smollm", "  123", ["ĠĠ", "1", "2", "3"]),
        ("gpt-2", "  123", ["Ġ", "Ġ", "123"]),
        ("default", "123", ["123"]),
        ("llama-bpe", "1231", ["123", "1"]),
        ("llama3", "a  b", ["a", "Ġ", "Ġ", "b"]),
        ("qwen2", "123", ["1", "2", "3"]),
        ("qwen2", "e\u0301", ["Ã©"]),
        ("smollm", "e\u0301", ["e", "Ì", "ģ"]),
        ("tekken", "123ABab", ["1", "2", "3", "A", "B", "ab"]),
    ],
)
def test_pre_tokenizers_split_as_their_models_were_trained(make_byte_level: Make, kind: str, text: str, expected: list[str]) -> None:
    assert spelled(make_byte_level(ggml__pre=kind), text) == expected


def test_whole_words_that_are_tokens_skip_the_merges_where_the_model_says_so(make_byte_level: Make) -> None:
    without_merges = ["h e", "1 2"]
    assert spelled(make_byte_level(ggml__pre="llama-bpe", ggml__merges=without_merges), "hello") == ["hello"]
    assert spelled(make_byte_level(ggml__pre="qwen2", ggml__merges=without_merges), "hello") == ["he", "l", "l", "o"]


@pytest.mark.parametrize(("kind", "adds"), [("smollm", False), ("qwen2", False), ("llama-bpe", True), ("tekken", True)])
def test_bos_is_added_as_the_kind_has_it_unless_the_file_says(make_byte_level: Make, kind: str, adds: bool) -> None:
    def begins_with_bos(**changes: Any) -> bool:
        return make_byte_level(ggml__pre=kind, **changes).encode("ab", add_special_tokens=True)[0] == 1

    assert begins_with_bos() is adds
    assert begins_with_bos(ggml__add_bos_token=True)
    assert not begins_with_bos(ggml__add_bos_token=False)


def test_eos_is_added_where_the_file_says(make_byte_level: Make) -> None:
    assert make_byte_level(ggml__add_eos_token=True).encode("a", add_special_tokens=True)[-1] == 0


def test_sentence_piece_merges_best_score_first_with_bytes_for_the_rest(sentence_piece: Tokenizer) -> None:
    assert spelled(sentence_piece, "hello") == ["▁hello"]
    assert spelled(sentence_piece, "hello wor") == ["▁hello", "▁w", "or"]
    assert spelled(sentence_piece, "abc") == ["▁", "ab", "c"]
    assert spelled(sentence_piece, "€") == ["▁", "<0xE2>", "<0x82>", "<0xAC>"]
    assert spelled(sentence_piece, "<s>he</s>") == ["<s>", "▁he", "</s>"]
    assert sentence_piece.encode("he", add_special_tokens=True)[0] == 1


def test_sentence_piece_without_space_prefix(make_sentence_piece: Make) -> None:
    tokenizer = make_sentence_piece(ggml__add_space_prefix=False)
    assert spelled(tokenizer, "he llo") == ["he", "▁", "llo"]
    assert not tokenizer.strips_leading_space
    assert tokenizer.decode(tokenizer.encode(" he", add_special_tokens=False), skip_special_tokens=True) == " he"


@settings(deadline=None)
@given(text=st.text(alphabet="helo wrabc", max_size=20))
def test_sentence_piece_equals_the_plain_algorithm(sentence_piece: Tokenizer, text: str) -> None:
    from_scores = {token: score for token, score in _scores(sentence_piece).items() if not token.startswith("<")}
    pieces = list("▁" + text.replace(" ", "▁")) if text else []
    while True:
        pairs = [
            (-from_scores[left + right], i) for i, (left, right) in enumerate(itertools.pairwise(pieces)) if left + right in from_scores
        ]
        if not pairs:
            break
        _, best = min(pairs)
        pieces[best : best + 2] = [pieces[best] + pieces[best + 1]]
    assert spelled(sentence_piece, text) == pieces


def _scores(tokenizer: Tokenizer) -> dict[str, float]:
    """Merged pieces were listed best first, so minus their ids rank as their scores do."""
    return {token: -token_id for token_id in range(tokenizer.vocab_size) if (token := tokenizer.token(token_id)) is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ggml__model": "bert"}, "'bert', which is not supported"),
        ({"ggml__model": None}, r"tokenizer\.ggml\.model"),
        ({"ggml__pre": "falcon"}, "'falcon', which is not supported; known are default"),
        ({"ggml__tokens": None}, r"tokenizer\.ggml\.tokens"),
        ({"ggml__tokens": [1, 2]}, r"tokenizer\.ggml\.tokens"),
        ({"ggml__merges": None}, r"tokenizer\.ggml\.merges"),
        ({"ggml__merges": ["a b c"]}, "pairs of tokens"),
        ({"ggml__merges": ["q nothing"]}, "do not fit together"),
        ({"ggml__token_type": [1]}, r"tokenizer\.ggml\.token_type"),
        ({"ggml__eos_token_id": 10_000}, "eos_token_id is 10000"),
        ({"chat_template": 5}, "chat_template"),
    ],
)
def test_what_does_not_fit_is_refused(make_byte_level: Make, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        make_byte_level(**changes)


def test_missing_scores_are_refused(make_sentence_piece: Make) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.ggml\.scores"):
        make_sentence_piece(ggml__scores=None)


def test_template_and_special_tokens_are_carried_over(make_byte_level: Make) -> None:
    tokenizer = make_byte_level(chat_template="{{ messages }}")
    assert tokenizer.chat_template == "{{ messages }}"
    assert tokenizer.special_tokens == {"bos_token": "<|start|>", "eos_token": "<|end|>"}
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 0)
