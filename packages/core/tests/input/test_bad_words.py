import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from octavo.errors import InvalidRequestError
from octavo.input.bad_words import bad_token_sequences
from octavo.text.token_ids_only import TokenIdsOnly
from octavo.text.tokenizer import Tokenizer
from octavo.text.tokenizer_settings import TokenizerSettings

VOCABULARY = {token: index for index, token in enumerate(["a", "b", "c", "Ġ", "ab", "Ġab", "Ġc", "abc"])}


def byte_level_tokenizer() -> Tokenizer:
    backend = Backend(models.BPE(VOCABULARY, [("a", "b"), ("Ġ", "ab"), ("Ġ", "c")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.ByteLevel()
    return Tokenizer(TokenizerSettings(backend=backend))


@pytest.mark.parametrize(
    ("words", "sequences"),
    [
        ([], []),
        (["ab"], [["ab"], ["Ġab"]]),
        (["  ab"], [["ab"], ["Ġab"]]),
        (["abc"], [["ab", "c"], ["Ġab", "c"]]),
        (["ab c"], [["ab", "Ġc"], ["Ġab", "Ġc"]]),
        (["ab", "ab"], [["ab"], ["Ġab"]]),
        (["ba"], [["b", "a"]]),
        (["c", "abc"], [["c"], ["Ġc"]]),
    ],
)
def test_words_are_forbidden_as_a_text_begins_and_behind_a_space(words: list[str], sequences: list[list[str]]) -> None:
    expected = sorted([VOCABULARY[token] for token in sequence] for sequence in sequences)
    assert bad_token_sequences(words, byte_level_tokenizer()) == expected


def test_without_a_tokenizer_they_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="bad words need a tokenizer") as caught:
        bad_token_sequences(["word"], TokenIdsOnly())
    assert caught.value.param == "bad_words"
