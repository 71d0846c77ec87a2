"""When a token ends a request."""

from octavo.request import Request
from octavo.types import FinishReason


def ending_of(request: Request, eos_token_ids: frozenset[int]) -> tuple[FinishReason, int | None] | None:
    """Whether the last known token of a request ends it: the reason, and the stop token id if one of the user's ended it."""
    token, params = request.token_ids[-1], request.params
    if len(request.token_ids) - request.num_prompt_tokens >= params.min_tokens:
        if token in eos_token_ids and not params.ignore_eos:
            return FinishReason.STOP, None
        if token in request.stop_token_ids:
            return FinishReason.STOP, token
    if len(request.token_ids) >= request.max_total_tokens:
        return FinishReason.LENGTH, None
    return None


def ending_token_ids(request: Request, eos_token_ids: frozenset[int]) -> list[int]:
    """Ids that must not be drawn before `min_tokens`."""
    return sorted(request.stop_token_ids if request.params.ignore_eos else request.stop_token_ids | eos_token_ids)
