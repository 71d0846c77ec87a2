"""What clients and engine tell each other: msgspec structs, never pickle."""

import msgspec

from octavo.logprobs import MAX_LOGPROBS, LogprobRows
from octavo.sampling_params import SamplingParams
from octavo.types import FinishReason


class EngineRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence to continue; `n > 1` is n of these, the later ones naming the first as their `leader`.

    Attributes:
        request_id: made unique at the border.
        token_ids: the prompt, at least one id.
        params: with `n` already spread over the group.
        priority: lower runs earlier under the priority policy.
        arrival_time: seconds, `time.monotonic()` of the client.
        seed: what draws are made from.
        leader: request whose full prompt blocks this one shares, and behind whose prefill it waits.
        cache_salt: prefix-cache blocks are shared only between equal salts.
        bad_sequences: token ids of `params.bad_words`: the last one of each is not drawn behind the others.
        tenant: to whose account it runs; "" where nobody keeps accounts.
        client: which of the engine's clients gets the outputs; the engine's side gives the number.
    """

    request_id: str
    token_ids: list[int]
    params: SamplingParams
    arrival_time: float
    seed: int
    priority: int = 0
    leader: str | None = None
    cache_salt: str | None = None
    bad_sequences: list[list[int]] = []
    tenant: str = ""
    client: int = 0


class RequestTimes(msgspec.Struct, kw_only=True):
    """When things happened to a request, `time.monotonic()` seconds; 0 means not yet."""

    arrival: float = 0.0
    first_scheduled: float = 0.0
    first_token: float = 0.0
    finished: float = 0.0
    num_preemptions: int = 0


class EngineOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a request gained in one step.

    Attributes:
        request_id: the request's.
        new_token_ids: tokens gained, an ending token included.
        num_cached_tokens: prompt tokens taken from the prefix cache on first admission.
        finish_reason: set on the last output only.
        stop_reason: the token id that ended the request, where it is not an end-of-sequence token of the model.
        error: why it failed, with `finish_reason` error.
        times: set on the last output only.
        logprobs: of the new tokens, where they were asked for.
        prompt_logprobs: of all tokens of the prompt but the first; set on the first output only, where they were asked for.
    """

    request_id: str
    new_token_ids: list[int]
    num_cached_tokens: int = 0
    finish_reason: FinishReason | None = None
    stop_reason: int | None = None
    error: str | None = None
    times: RequestTimes | None = None
    logprobs: LogprobRows | None = None
    prompt_logprobs: LogprobRows | None = None


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a client must know of the model and its engine to validate requests before they are queued.

    `max_pool_tokens` is the length of the longest request that the KV pool can carry. `max_logprobs` is how many alternatives to
    a token may be asked for, `logits_processors` the names that are registered, `max_num_seqs` how many requests run at once.
    """

    vocab_size: int
    max_model_len: int
    eos_token_ids: list[int]
    block_size: int
    num_blocks: int
    max_pool_tokens: int
    max_logprobs: int = MAX_LOGPROBS
    logits_processors: list[str] = []
    max_num_seqs: int = 1
