"""What stands in for the tokenizer of a model that has none."""

from collections.abc import Sequence
from typing import ClassVar, NoReturn

from octavo.errors import InvalidRequestError
from octavo.text.tokenizer import Tokenizer


class TokenIdsOnly(Tokenizer):
    """Refuses text as a prompt, and makes none: answers are token ids with an empty text."""

    makes_text: ClassVar[bool] = False

    def __init__(self) -> None:
        self.vocab_size = 0
        self.special_token_ids = frozenset()
        self.special_tokens = {}
        self.bos_token_id = self.eos_token_id = self.chat_template = None
        self.strips_leading_space = False

    def encode_batch(self, texts: Sequence[str], *, add_special_tokens: bool) -> NoReturn:  # noqa: ARG002
        """Raises `InvalidRequestError`: there is no tokenizer."""
        raise InvalidRequestError("this model has no tokenizer, so a prompt must be a list of token ids", param="prompt")

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:  # noqa: ARG002
        """No text."""
        return ""

    def token_bytes(self, token_id: int) -> bytes:  # noqa: ARG002
        """No bytes."""
        return b""

    def token(self, token_id: int) -> str | None:  # noqa: ARG002
        """No spelling."""
        return None

    def token_id(self, token: str) -> int | None:  # noqa: ARG002
        """No id."""
        return None
