"""Prompts cut to a length that a request asks for; nothing is ever cut unasked."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Truncation:
    """How many tokens of a prompt to keep.

    Attributes:
        num_tokens: at least 1; a shorter prompt stays as it is.
        keeps_end: keep the last tokens, not the first.
    """

    num_tokens: int
    keeps_end: bool = True

    def apply(self, token_ids: list[int]) -> list[int]:
        """The tokens that are kept; the same list where that is all of them."""
        if len(token_ids) <= self.num_tokens:
            return token_ids
        return token_ids[-self.num_tokens :] if self.keeps_end else token_ids[: self.num_tokens]
