"""Where tokens begin in a text, in characters."""

import codecs
from collections.abc import Sequence

from octavo.text.detokenizer import IncrementalDetokenizer
from octavo.text.tokenizer import Tokenizer


def prompt_text(tokenizer: Tokenizer, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
    """Text of a prompt that came as token ids; a character that it leaves unfinished is left to what follows."""
    return IncrementalDetokenizer(tokenizer, skip_special_tokens=skip_special_tokens).append(token_ids)


def prompt_offsets(tokenizer: Tokenizer, token_ids: Sequence[int], text: str) -> list[int]:
    """Where each token of a prompt begins in its text.

    Special tokens that the text does not show (BOS before it) have no length. White space that the tokenizer left out belongs to the
    token before; where it put something else in place, offsets go on by the lengths of the tokens, as far as the text goes.
    """
    data = text.encode()
    count_characters = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    offsets: list[int] = []
    offset = position = 0
    at_start = True
    for token_id in token_ids:
        piece, is_special = tokenizer.token_bytes(token_id), token_id in tokenizer.special_token_ids
        if at_start and tokenizer.strips_leading_space and not is_special:
            piece = piece.removeprefix(b" ")
            at_start = False
        if not data.startswith(piece, position):
            if is_special:
                offsets.append(offset)
                continue
            begin = _behind_white_space(data, position)
            if data.startswith(piece, begin):
                offset += len(count_characters(data[position:begin]))
                position = begin
        offsets.append(offset)
        end = min(position + len(piece), len(data))
        offset += len(count_characters(data[position:end]))
        position = end
    return offsets


def _behind_white_space(data: bytes, position: int) -> int:
    while data[position : position + 1].isspace():
        position += 1
    return position


class OutputOffsets:
    """Where each token of a continuation begins.

    Args:
        tokenizer: of the model.
        prompt_token_ids: what it continues.
        start: offset of the first token.
        skip_special_tokens: as in the text.
    """

    def __init__(self, tokenizer: Tokenizer, prompt_token_ids: Sequence[int], *, start: int, skip_special_tokens: bool) -> None:
        self._detokenizer = IncrementalDetokenizer(tokenizer, skip_special_tokens=skip_special_tokens, prompt_token_ids=prompt_token_ids)
        self._offset = start

    def next(self, token_id: int) -> int:
        """Offset of the next token."""
        offset = self._offset
        self._offset += len(self._detokenizer.append((token_id,)))
        return offset
