"""Log-probabilities in the two dialects of OpenAI, and in vLLM's for prompts."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from octavo.outputs import Logprob
from octavo_server.protocol.token_spelling import TokenSpelling

LOWEST = -9999.0
"""Stands for minus infinity, which JSON does not have."""

Position: TypeAlias = Mapping[int, Logprob]
"""The token first, then the likeliest ones, of which it may be one."""


class CompletionLogprobs(msgspec.Struct, kw_only=True):
    """Of completions: four lists of the same length; a prompt's first token has null in the middle two.

    `text_offset` is where a token begins in the choice's text, in characters. A token that the text does not show, such as those of a
    stop string, begins where it would.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TopLogprob(msgspec.Struct, kw_only=True):
    """One of the likeliest tokens."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(msgspec.Struct, kw_only=True):
    """A token and the likeliest ones in its place."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct, kw_only=True):
    """Of chats: an object a token."""

    content: list[TokenLogprob]
    refusal: None = None


class PromptLogprob(msgspec.Struct, kw_only=True):
    """vLLM's form for a token of a prompt."""

    logprob: float
    rank: int
    decoded_token: str


def completion_logprobs(
    token_ids: Sequence[int],
    positions: Sequence[Position | None],
    offsets: Sequence[int],
    *,
    num_top: int,
    spelling: TokenSpelling,
) -> CompletionLogprobs:
    """Of consecutive tokens; a position that is None has no log-probability."""
    found = CompletionLogprobs(tokens=[], token_logprobs=[], top_logprobs=[], text_offset=list(offsets))
    for token_id, position in zip(token_ids, positions, strict=True):
        text = spelling.text(token_id)
        found.tokens.append(text)
        if position is None:
            found.token_logprobs.append(None)
            found.top_logprobs.append(None)
            continue
        own = finite(position[token_id].logprob)
        found.token_logprobs.append(own)
        found.top_logprobs.append(
            {text: own} | {spelling.text(other): finite(item.logprob) for other, item in likeliest(position, num_top) if other != token_id}
        )
    return found


def chat_logprob(token_id: int, position: Position, *, num_top: int, spelling: TokenSpelling) -> TokenLogprob:
    """Of one token."""
    return TokenLogprob(
        token=spelling.text(token_id),
        logprob=finite(position[token_id].logprob),
        bytes=spelling.bytes(token_id),
        top_logprobs=[
            TopLogprob(token=spelling.text(other), logprob=finite(item.logprob), bytes=spelling.bytes(other))
            for other, item in likeliest(position, num_top)
        ],
    )


def prompt_logprobs(
    token_ids: Sequence[int], positions: Sequence[Position | None], *, num_top: int
) -> list[dict[str, PromptLogprob] | None]:
    """By token id, which in JSON is a string: each token and the likeliest ones in its place."""
    found: list[dict[str, PromptLogprob] | None] = []
    for token_id, position in zip(token_ids, positions, strict=True):
        if position is None:
            found.append(None)
            continue
        shown = {token_id: position[token_id], **dict(likeliest(position, num_top))}
        found.append(
            {
                str(key): PromptLogprob(logprob=finite(item.logprob), rank=item.rank, decoded_token=item.decoded_token)
                for key, item in shown.items()
            }
        )
    return found


def likeliest(position: Position, num_top: int) -> list[tuple[int, Logprob]]:
    """The `num_top` likeliest tokens, in order; the token itself is among them where it is one of them."""
    return sorted(position.items(), key=lambda item: item[1].rank)[:num_top]


def finite(value: float) -> float:
    """A number that JSON has."""
    return max(value, LOWEST)
