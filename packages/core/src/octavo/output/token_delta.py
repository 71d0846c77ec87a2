"""What a stream is made of: one output token at a time."""

from dataclasses import dataclass

from octavo.outputs import Logprob
from octavo.types import FinishReason


@dataclass(slots=True)
class TokenDelta:
    """One output token of one continuation, or an end that brought none.

    Attributes:
        index: which of the `n` continuations.
        token_id: None for an end without a token: `max_tokens` 0, an abort, an error.
        text: what the token released; "" where it is held back, because a stop string may begin in it or a character is incomplete.
        logprobs: the token, then the likeliest ones, by id; None where none were asked for.
        finish_reason: on the last delta of a continuation only.
        stop_reason: the stop string or stop token id that ended it.
        error: why it failed, with `finish_reason` error.
    """

    index: int
    token_id: int | None
    text: str = ""
    logprobs: dict[int, Logprob] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: str | None = None
