"""A deterministic model without weights: the next token is a function of all tokens before it, so lost or doubled ones show."""

from collections.abc import Callable, Container, Sequence
from itertools import accumulate

from octavo.logprobs import LogprobRows

_MASK = (1 << 64) - 1

Draw = Callable[[str, int, int], int]
"""Chooses a token: request id, how many output tokens came before, and the token the model would give."""


def fold(state: int, token_id: int) -> int:
    """KV of a token: a 64-bit mix of the KV before it and the token itself (one round of Steele et al. 2014, SplitMix64)."""
    mixed = (state + token_id + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    return mixed ^ (mixed >> 27)


def next_token(context: int, *, vocab_size: int, seed: int = 0, banned: Container[int] = ()) -> int:
    """Token after a context, given the sum of its KV; `seed` tells apart the draws of requests that are not greedy."""
    token = fold(context & _MASK, seed) % vocab_size
    while token in banned:
        token = (token + 1) % vocab_size
    return token


def continuation(
    prompt: Sequence[int], count: int, *, vocab_size: int = 1000, seed: int = 0, min_tokens: int = 0, ending: Container[int] = ()
) -> list[int]:
    """What the model gives after a prompt: `count` tokens, or fewer where one in `ending` comes after `min_tokens`."""
    states = list(accumulate(prompt, fold, initial=0))
    state, context = states[-1], sum(states[1:])
    tokens: list[int] = []
    while len(tokens) < count:
        token = next_token(context, vocab_size=vocab_size, seed=seed, banned=ending if len(tokens) < min_tokens else ())
        tokens.append(token)
        if token in ending:
            break
        state = fold(state, token)
        context += state
    return tokens


def fake_logprobs(tokens: Sequence[int], *, num_top: int) -> LogprobRows:
    """What the model says of tokens: the value -t / 1000 and the rank t + 1 of token t, whatever comes before; token 0 is the likeliest."""
    ids = [alternative for token_id in tokens for alternative in (token_id, *range(num_top))]
    return LogprobRows.pack(ids, [-token_id / 1000 for token_id in ids], [token_id + 1 for token_id in tokens])


def scripted(scripts: dict[str, list[int]]) -> Draw:
    """Let some requests, by id, get given tokens; the model goes on where a script ends."""

    def draw(request_id: str, index: int, token_id: int) -> int:
        script = scripts.get(request_id, [])
        return script[index] if index < len(script) else token_id

    return draw
