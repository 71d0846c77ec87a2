"""One prompt of a workload."""

from collections.abc import Sequence
from dataclasses import dataclass

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class Prompt:
    """What is asked and how long the answer may be.

    Attributes:
        content: token ids or text.
        num_tokens: of the prompt; of text as far as can be told without a tokenizer.
        output_len: tokens of the answer.
    """

    content: list[int] | str
    num_tokens: int
    output_len: int

    @classmethod
    def of(cls, pieces: Sequence[int] | Sequence[str], output_len: int) -> "Prompt":
        """A prompt of token ids, or of words that are about a token each."""
        if pieces and isinstance(pieces[0], str):
            return cls(" ".join(map(str, pieces)), len(pieces), output_len)
        return cls([int(piece) for piece in pieces], len(pieces), output_len)

    @classmethod
    def of_text(cls, text: str, output_len: int) -> "Prompt":
        """A prompt of any text."""
        return cls(text, estimate_tokens(text), output_len)


def estimate_tokens(text: str) -> int:
    """Tokens of a text, by the rule of thumb of four characters each; one at least."""
    return max(1, round(len(text) / _CHARACTERS_PER_TOKEN))
