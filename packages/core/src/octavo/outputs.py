"""What a user gets back."""

from dataclasses import dataclass, field

from octavo.engine.messages import RequestTimes
from octavo.types import FinishReason


@dataclass(frozen=True, slots=True)
class Logprob:
    """How likely one token was.

    Attributes:
        logprob: natural log-softmax of the model's own logits: before biases, processors, penalties and temperature.
        rank: among all tokens; 1 is the likeliest.
        decoded_token: its text; bytes that are a part of a character only are U+FFFD.
    """

    logprob: float
    rank: int
    decoded_token: str


@dataclass(kw_only=True)
class CompletionOutput:
    """One continuation.

    Attributes:
        index: which of the `n`.
        text: decoded, without the stop string unless it was asked for; "" with `detokenize=False`.
        token_ids: output tokens, an ending token included.
        logprobs: for each output token, that token and the likeliest ones by id; None where none were asked for.
        cumulative_logprob: sum over the output tokens; None where none were asked for.
        finish_reason: None while it goes on.
        stop_reason: the stop string or stop token id that ended it.
        error: why it failed, with `finish_reason` error.
    """

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, Logprob]] | None = None
    cumulative_logprob: float | None = None
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
        prompt_logprobs: for each token of the prompt, that token and the likeliest ones by id; None for the first, which follows nothing.
            None altogether where none were asked for, and until they have come.
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
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
