"""Which requests are refused at the door, and how long the others may become."""

from collections.abc import Sequence

from octavo.cache.prefix import encode_tokens
from octavo.engine.messages import EngineRequest
from octavo.errors import InvalidRequestError


def check_tokens(token_ids: Sequence[int]) -> None:
    """Refuse a prompt that is empty or holds what is no token id. Raises `InvalidRequestError`."""
    if not token_ids:
        raise InvalidRequestError("the prompt has 0 tokens, but at least 1 is needed to continue from", param="prompt")
    try:
        encode_tokens(token_ids)
    except (OverflowError, TypeError) as error:
        raise InvalidRequestError("the prompt holds something that is no token id: ids are integers of 32 bits", param="prompt") from error
    if (lowest := min(token_ids)) < 0:
        raise InvalidRequestError(f"the prompt holds token id {lowest}, but ids are at least 0", param="prompt")


def max_total_tokens(message: EngineRequest, *, max_model_len: int, pool_tokens: int) -> int:
    """Prompt plus output that a request may reach: `max_tokens`, cut to what context and KV pool leave.

    Raises `InvalidRequestError` with code `context_length_exceeded` where the prompt leaves no room for one output token, or, with
    `max_tokens` 0, does not fit itself.
    """
    num_prompt, max_tokens = len(message.token_ids), message.params.max_tokens
    limit = min(max_model_len, pool_tokens)
    if num_prompt + (max_tokens != 0) > limit:
        if pool_tokens < max_model_len:
            reason = f"the KV pool holds {pool_tokens} tokens: shorten the prompt, or start with more KV memory"
        else:
            reason = f"the context is {max_model_len} tokens: shorten the prompt"
        room = "" if max_tokens == 0 else ", and at least 1 must be left for output"
        message_text = f"the prompt has {num_prompt} tokens{room}, but {reason}"
        raise InvalidRequestError(message_text, param="prompt", code="context_length_exceeded")
    return limit if max_tokens is None else min(limit, num_prompt + max_tokens)
