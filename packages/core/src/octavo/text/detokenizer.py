"""Token ids to text while they come."""

import codecs
from collections.abc import Sequence

from octavo.text.tokenizer import Tokenizer

# A character has at most four bytes in UTF-8, so what a prompt leaves unfinished begins within its last three.
_LONGEST_UNFINISHED = 3


class IncrementalDetokenizer:
    """Turns one request's output into text, a few tokens at a time, in time proportional to the new tokens.

    What `append` returned, joined and with `finish` at the end, equals `Tokenizer.decode` of all ids. A character whose bytes
    are not all there is held back, so U+FFFD stands only for bytes that can become no character any more.

    Args:
        tokenizer: the model's.
        skip_special_tokens: leave special tokens out.
        prompt_token_ids: what the output continues. With it the text is what follows the prompt's text: a leading space of
            SentencePiece stays, and a character that the prompt begins is finished. Without it the output stands alone.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool, prompt_token_ids: Sequence[int] = ()) -> None:
        self._token_bytes = tokenizer.token_bytes
        self._skipped: frozenset[int] = tokenizer.special_token_ids if skip_special_tokens else frozenset()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        follows_text = any(self._bytes_of(token_id) for token_id in prompt_token_ids)
        self._strips_next_space = tokenizer.strips_leading_space and not follows_text
        self._decoder.decode(self._tail(prompt_token_ids))

    def append(self, token_ids: Sequence[int]) -> str:
        """The text that these tokens complete; "" while a character is unfinished."""
        return self._strip(self._decoder.decode(b"".join(map(self._bytes_of, token_ids))))

    def finish(self) -> str:
        """What is still held back: U+FFFD for an unfinished character, else ""."""
        return self._strip(self._decoder.decode(b"", final=True))

    def _tail(self, token_ids: Sequence[int]) -> bytes:
        """The last bytes of a prompt, as many as can matter for what follows."""
        tail = b""
        for token_id in reversed(token_ids):
            tail = self._bytes_of(token_id) + tail
            if len(tail) >= _LONGEST_UNFINISHED:
                break
        return tail

    def _bytes_of(self, token_id: int) -> bytes:
        return b"" if token_id in self._skipped else self._token_bytes(token_id)

    def _strip(self, text: str) -> str:
        if not self._strips_next_space or not text:
            return text
        self._strips_next_space = False
        return text.removeprefix(" ")
