"""What a user gets back."""

from dataclasses import dataclass, field

from octavo.engine.messages import RequestTimes
from octavo.types import FinishReason


@dataclass(kw_only=True)
class CompletionOutput:
    """One continuation.

    Attributes:
        index: which of the `n`.
        text: decoded, without the stop string unless it was asked for; "" with `detokenize=False`.
        token_ids: output tokens, an ending token included.
        finish_reason: None while it goes on.
        stop_reason: the stop string or stop token id that ended it.
        error: why it failed, with `finish_reason` error.
    """

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: str | None = None


@dataclass(kw_only=True)
class RequestOutput:
    """One prompt and its continuations.

    Attributes:
        request_id: the engine's.
        prompt: text as it was tokenized (after the chat template); None where token ids were given.
        prompt_token_ids: the tokens of the prompt.
        outputs: `n` continuations in order.
        finished: whether all of them ended.
        num_cached_tokens: prompt tokens taken from the prefix cache.
        metrics: times of the first continuation, once it ended.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool = False
    num_cached_tokens: int = 0
    metrics: RequestTimes | None = None
