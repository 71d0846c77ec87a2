from pathlib import Path

import pytest

from octavo.errors import InvalidRequestError
from octavo.model.source import ModelFiles
from octavo.text.detokenizer import IncrementalDetokenizer
from octavo.text.token_ids_only import TokenIdsOnly
from octavo.text.tokenizer import load_tokenizer


def test_it_stands_in_where_weights_are_made_up_and_no_tokenizer_is_there() -> None:
    tokenizer = load_tokenizer(ModelFiles(name="m", format="safetensors", folder=Path(), weights=(), dummy=True))
    assert isinstance(tokenizer, TokenIdsOnly)
    assert not tokenizer.makes_text


def test_text_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="must be a list of token ids") as caught:
        TokenIdsOnly().encode("hello", add_special_tokens=True)
    assert caught.value.param == "prompt"


def test_tokens_have_no_text() -> None:
    tokenizer = TokenIdsOnly()
    assert tokenizer.decode([1, 2], skip_special_tokens=False) == ""
    assert (tokenizer.token(1), tokenizer.token_id("a"), tokenizer.token_bytes(1)) == (None, None, b"")
    detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=True, prompt_token_ids=[1])
    assert detokenizer.append([1, 2]) + detokenizer.finish() == ""
