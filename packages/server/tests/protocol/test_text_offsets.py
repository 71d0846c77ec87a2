import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from octavo.text.tokenizer import Tokenizer
from octavo.text.tokenizer_settings import TokenizerSettings
from octavo_server.protocol.text_offsets import OutputOffsets, prompt_offsets, prompt_text


def byte_level(*, lower: bool = False) -> Tokenizer:
    """A token for each byte, and BOS in front."""
    tokens = ["<s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Backend(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if lower:
        backend.normalizer = normalizers.Lowercase()
    backend.add_special_tokens(["<s>"])
    return Tokenizer(TokenizerSettings(backend=backend, special_tokens={"bos_token": "<s>"}, adds_bos=True))


def sentence_piece() -> Tokenizer:
    """Spaces are part of words, and a text begins with one that is not its own."""
    words = ["<unk>", "<s>", "▁hello", "▁there", "▁", "h"]
    backend = Backend(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    backend.add_special_tokens(["<unk>", "<s>"])
    return Tokenizer(TokenizerSettings(backend=backend, special_tokens={"bos_token": "<s>"}))


BYTES = byte_level()


@given(st.text(max_size=40))
def test_offsets_cut_a_text_into_its_tokens(text: str) -> None:
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        return
    token_ids = BYTES.encode(text, add_special_tokens=True)
    offsets = prompt_offsets(BYTES, token_ids, text)
    assert offsets[:2] == [0, 0][: len(offsets)]
    assert offsets == sorted(offsets)
    data = text.encode()
    if "<s>" not in text:
        assert offsets[1:] == [len(data[:place].decode(errors="ignore")) for place in range(len(data))]


def test_special_tokens_count_where_the_text_shows_them() -> None:
    text = "a<s>b"
    token_ids = BYTES.encode(text, add_special_tokens=True)
    assert prompt_offsets(BYTES, token_ids, text) == [0, 0, 1, 4]


def test_the_space_that_the_tokenizer_put_in_front_has_no_length() -> None:
    tokenizer = sentence_piece()
    assert tokenizer.strips_leading_space
    assert prompt_offsets(tokenizer, [1, 2, 3], "hello there") == [0, 0, 5]


def test_a_tokenizer_that_changes_the_text_gets_offsets_within_it() -> None:
    tokenizer = byte_level(lower=True)
    text = "HELLO there"
    offsets = prompt_offsets(tokenizer, tokenizer.encode(text, add_special_tokens=True), text)
    assert offsets == [0, *range(11)]


@pytest.mark.parametrize("cut", range(1, 7))
def test_a_character_may_lie_across_prompt_and_output(cut: int) -> None:
    token_ids = BYTES.encode("a😀b", add_special_tokens=False)
    prompt, output = token_ids[:cut], token_ids[cut:]
    text = prompt_text(BYTES, prompt, skip_special_tokens=True)
    following = OutputOffsets(BYTES, prompt, start=len(text), skip_special_tokens=True)
    offsets = prompt_offsets(BYTES, prompt, text) + [following.next(token_id) for token_id in output]
    assert offsets == [0, 1, 1, 1, 1, 2][: len(token_ids)]
