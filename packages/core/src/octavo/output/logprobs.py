"""Log-probabilities as users get them: by token id, with the token's text."""

from octavo.logprobs import LogprobRows
from octavo.outputs import Logprob
from octavo.text.tokenizer import Tokenizer


def by_token(rows: LogprobRows, tokenizer: Tokenizer) -> list[dict[int, Logprob]]:
    """One mapping a position: the token first, then the likeliest ones, of which it may be one."""
    return [_position(ids, values, rank, tokenizer) for ids, values, rank in rows.positions()]


def _position(ids: tuple[int, ...], values: tuple[float, ...], rank: int, tokenizer: Tokenizer) -> dict[int, Logprob]:
    ranks = (rank, *range(1, len(ids)))
    found: dict[int, Logprob] = {}
    for token_id, value, its_rank in zip(ids, values, ranks, strict=True):
        if token_id not in found:
            found[token_id] = Logprob(value, its_rank, tokenizer.token_bytes(token_id).decode(errors="replace"))
    return found
