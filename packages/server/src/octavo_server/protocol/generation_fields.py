"""What completions and chats may ask for alike, and how it becomes sampling parameters."""

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from octavo.errors import InvalidRequestError, shown
from octavo.input.truncation import Truncation
from octavo.sampling_params import MAX_LOGIT_BIASES, SEED_LIMIT, SamplingParams
from octavo_server.protocol.fields import (
    MAX_ID_LENGTH,
    MAX_SALT_LENGTH,
    AllowedTokenIds,
    BadWords,
    CacheSalt,
    Choices,
    LogitBias,
    MaxTokens,
    MinP,
    MinTokens,
    NumLogprobs,
    Penalty,
    Priority,
    Processors,
    RepetitionPenalty,
    RequestId,
    Seed,
    Stop,
    Temperature,
    TokenIds,
    TopK,
    TopP,
    Truncate,
)
from octavo_server.protocol.sizes import check_sizes

if TYPE_CHECKING:
    from octavo import AsyncLLM

_MAX_DIGITS = 20
_PASSED_ON = (
    "n",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "allowed_token_ids",
    "bad_words",
    "logits_processors",
    "seed",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "skip_special_tokens",
)


class StreamOptions(msgspec.Struct, kw_only=True):
    """What a stream says beside its tokens.

    Attributes:
        include_usage: a last chunk without choices says the usage.
        continuous_usage_stats: every chunk says the usage so far.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationFields(msgspec.Struct, kw_only=True):
    """Fields of completions and chats. Null is the same as left out; the names are OpenAI's and those that vLLM added."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Choices = None
    temperature: Temperature = None
    top_p: TopP = None
    top_k: TopK = None
    min_p: MinP = None
    presence_penalty: Penalty = None
    frequency_penalty: Penalty = None
    repetition_penalty: RepetitionPenalty = None
    logit_bias: LogitBias = None
    allowed_token_ids: AllowedTokenIds = None
    bad_words: BadWords = None
    logits_processors: Processors = None
    seed: Seed = None
    stop: Stop = None
    stop_token_ids: TokenIds = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    max_tokens: MaxTokens = None
    min_tokens: MinTokens = None
    prompt_logprobs: NumLogprobs = None
    skip_special_tokens: bool | None = None
    truncate_prompt_tokens: Truncate = None
    truncation_side: Literal["left", "right"] | None = None
    priority: Priority = None
    cache_salt: CacheSalt = None
    request_id: RequestId = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None

    @property
    def num_choices(self) -> int:
        """Of each prompt."""
        return 1 if self.n is None else self.n

    def check(self) -> None:
        """Refuse what no field's type says. Raises `InvalidRequestError`."""
        if self.stream_options is not None and not self.stream:
            raise InvalidRequestError("stream_options are for streams: set stream to true, or leave them out", param="stream_options")
        check_cache_salt(self.cache_salt)
        if self.request_id is not None and not 1 <= len(self.request_id) <= MAX_ID_LENGTH:
            raise InvalidRequestError(
                f"request_id has {len(self.request_id)} characters, but needs 1 to {MAX_ID_LENGTH}: leave it out to get one",
                param="request_id",
            )
        if self.priority is not None and not -SEED_LIMIT <= self.priority < SEED_LIMIT:
            raise InvalidRequestError("priority must fit in a signed 64-bit integer", param="priority")

    def check_sequences(self, num_prompts: int, most: int) -> None:
        """Refuse more than `most` sequences, `n` for each prompt. Raises `InvalidRequestError`."""
        n = self.num_choices
        if num_prompts * n > most:
            raise InvalidRequestError(
                f"{num_prompts} x n={shown(n)} sequences are more than the {most} sequences that one request may have: send several",
                param="n" if num_prompts == 1 else "prompt",
            )

    def sampling_params(
        self, llm: "AsyncLLM", *, max_tokens: int | None, logprobs: int | None, prompt_logprobs: int | None
    ) -> SamplingParams:
        """Octavo's defaults, above them the model's, above them these fields. Raises `InvalidRequestError` naming a field."""
        given: dict[str, Any] = {name: value for name in _PASSED_ON if (value := getattr(self, name)) is not None}
        if self.stop is not None:
            given["stop"] = [self.stop] if isinstance(self.stop, str) else self.stop
        if self.logit_bias is not None:
            given["logit_bias"] = _biases(self.logit_bias)
        check_sizes(given, llm.info.vocab_size)
        return llm.default_sampling_params(**given, max_tokens=max_tokens, logprobs=logprobs, prompt_logprobs=prompt_logprobs)

    def truncation(self, max_model_len: int, max_tokens: int | None) -> Truncation | None:
        """How prompts are cut, where that is asked for. Raises `InvalidRequestError`."""
        kept = self.truncate_prompt_tokens
        if kept is None:
            return None
        if kept == -1:
            reserved = 1 if max_tokens is None or max_tokens >= max_model_len else max_tokens
            kept = max_model_len - reserved
        if not 1 <= kept <= max_model_len:
            raise InvalidRequestError(
                f"truncate_prompt_tokens is {shown(kept)}, but must be between 1 and the context of {max_model_len} tokens, or -1",
                param="truncate_prompt_tokens",
            )
        return Truncation(num_tokens=kept, keeps_end=self.truncation_side != "right")


def check_cache_salt(salt: str | None) -> None:
    """Refuse a salt that is empty or too long. Raises `InvalidRequestError`."""
    if salt is not None and not 1 <= len(salt) <= MAX_SALT_LENGTH:
        raise InvalidRequestError(
            f"cache_salt has {len(salt)} characters, but needs 1 to {MAX_SALT_LENGTH}: leave it out to share", param="cache_salt"
        )


def _biases(given: dict[str, float]) -> dict[int, float]:
    """JSON has no integer keys, so token ids come as their decimal digits."""
    if len(given) > MAX_LOGIT_BIASES:
        raise InvalidRequestError(f"logit_bias has {len(given)} entries, but at most {MAX_LOGIT_BIASES} are taken", param="logit_bias")
    biases: dict[int, float] = {}
    for key, value in given.items():
        if not (key.isascii() and key.isdigit() and len(key) <= _MAX_DIGITS):
            raise InvalidRequestError(f"logit_bias has the key {shown(key)}, but its keys are token ids", param="logit_bias")
        biases[int(key)] = value
    return biases
