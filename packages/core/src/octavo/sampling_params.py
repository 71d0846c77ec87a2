"""What a user may ask of sampling, validated in full before anything is queued."""

import math
from typing import Any

import msgspec

from octavo.errors import InvalidRequestError, shown
from octavo.plain_json import json_problem

MAX_CHOICES = 128
MAX_STOP_STRINGS = 64
MAX_LOGIT_BIASES = 1024
MAX_BAD_WORDS = 1024
MAX_BAD_WORD_LENGTH = 1024
SEED_LIMIT = 2**63


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one prompt is continued. Raises `InvalidRequestError` (a `ValueError`) naming the field, the value and the limit.

    Attributes:
        n: independent continuations of the prompt; choice 0 equals what `n=1` gives.
        temperature: 0 is greedy; a value too small to divide by is greedy too.
        top_p: keep the smallest set of tokens whose probability reaches this, in (0, 1].
        top_k: keep the k likeliest tokens; 0 and -1 keep all.
        min_p: drop tokens below this share of the likeliest one's probability, in [0, 1].
        presence_penalty, frequency_penalty: OpenAI's, over output tokens, in [-2, 2].
        repetition_penalty: CTRL's (Keskar et al. 2019), over prompt and output tokens, in [0.01, 100]; 1 is off.
        logit_bias: token id to a value in [-100, 100] added to its logit.
        allowed_token_ids: the only tokens that may come; None allows all.
        bad_words: texts that the output must not hold as the tokens they are split into, alone or behind a space. The last of those
            tokens is not drawn where the output ends with the ones before.
        logits_processors: name of a registered processor to what it is made from, which is plain JSON.
        logprobs: give the log-probability of each output token and of so many of the likeliest in its place; 0: of the token alone.
        prompt_logprobs: the same of the tokens of the prompt.
        seed: makes the draws repeatable whatever else runs; without one they differ between calls.
        stop: strings that end the text before them; one may be given as it is.
        stop_token_ids: ids that end the request like an end-of-sequence token.
        include_stop_str_in_output: keep the stop string that ended the text.
        ignore_eos: go on past the model's end-of-sequence tokens.
        max_tokens: cap on output tokens, cut to what the context leaves; None fills the context.
        min_tokens: nothing ends the request, and no ending token is drawn, before this many.
        skip_special_tokens: leave special tokens out of the text.
        detokenize: make text at all; off, only token ids come back.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] = []
    logits_processors: dict[str, Any] = {}
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    seed: int | None = None
    stop: list[str] = []
    stop_token_ids: list[int] = []
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    skip_special_tokens: bool = True
    detokenize: bool = True

    def __post_init__(self) -> None:
        given: object = self.stop
        if isinstance(given, str):
            msgspec.structs.force_setattr(self, "stop", [given])
        _check_types(self)
        _check_integers(self)
        _check_floats(self)
        _check_logit_bias(self.logit_bias)
        _check_allowed(self.allowed_token_ids)
        _check_bad_words(self.bad_words)
        _check_processors(self.logits_processors)
        _check_stops(self)

    @property
    def is_greedy(self) -> bool:
        """True where the likeliest token is taken: temperature 0, or too small for its inverse to be finite in float32."""
        return self.temperature < 1e-5


def check_against_vocabulary(params: SamplingParams, vocab_size: int) -> None:
    """Refuse token ids that the model does not have, before they reach an index kernel."""
    for field in ("logit_bias", "stop_token_ids", "allowed_token_ids"):
        for token_id in getattr(params, field) or ():
            if not 0 <= token_id < vocab_size:
                raise _refusal(field, token_id, f"token ids of this model are in [0, {vocab_size})")


def _refusal(field: str, value: Any, limit: str) -> InvalidRequestError:
    return InvalidRequestError(f"{field} is {shown(value)}, but {limit}", param=field)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_INT_FIELDS = ("n", "top_k", "min_tokens")
_FLOAT_FIELDS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
_BOOL_FIELDS = ("include_stop_str_in_output", "ignore_eos", "skip_special_tokens", "detokenize")


def _check_types(params: SamplingParams) -> None:
    for field in _INT_FIELDS:
        if not _is_int(value := getattr(params, field)):
            raise _refusal(field, value, "it must be an integer")
    for field in _FLOAT_FIELDS:
        if not _is_number(value := getattr(params, field)) or not -math.inf < value < math.inf:
            raise _refusal(field, value, "it must be a finite number")
    for field in _BOOL_FIELDS:
        if not isinstance(value := getattr(params, field), bool):
            raise _refusal(field, value, "it must be true or false")
    for field in ("seed", "max_tokens", "logprobs", "prompt_logprobs"):
        value = getattr(params, field)
        if value is not None and not _is_int(value):
            raise _refusal(field, value, "it must be an integer or null")


def _check_integers(params: SamplingParams) -> None:
    for field in ("top_k", "max_tokens", "min_tokens", "logprobs", "prompt_logprobs"):
        if (value := getattr(params, field)) is not None and value >= SEED_LIMIT:
            raise _refusal(field, value, "it must fit in a signed 64-bit integer")
    if not 1 <= params.n <= MAX_CHOICES:
        raise _refusal("n", params.n, f"it must be between 1 and {MAX_CHOICES}")
    if params.top_k < -1:
        raise _refusal("top_k", params.top_k, "it must be at least 1, or 0 or -1 for no limit")
    if params.seed is not None and not -SEED_LIMIT <= params.seed < SEED_LIMIT:
        raise _refusal("seed", params.seed, "it must fit in a signed 64-bit integer")
    if params.max_tokens is not None and params.max_tokens < 0:
        raise _refusal("max_tokens", params.max_tokens, "it must be at least 0, or null to fill the context")
    if params.min_tokens < 0:
        raise _refusal("min_tokens", params.min_tokens, "it must be at least 0")
    if params.max_tokens is not None and params.min_tokens > params.max_tokens:
        raise _refusal("min_tokens", params.min_tokens, f"it must be at most max_tokens, which is {params.max_tokens}")
    for field in ("logprobs", "prompt_logprobs"):
        if (value := getattr(params, field)) is not None and value < 0:
            raise _refusal(field, value, "it must be at least 0, or null for none")


def _check_floats(params: SamplingParams) -> None:
    if not 0 <= params.temperature <= 100:
        raise _refusal("temperature", params.temperature, "it must be between 0 and 100")
    if not 0 < params.top_p <= 1:
        raise _refusal("top_p", params.top_p, "it must be above 0 and at most 1")
    if not 0 <= params.min_p <= 1:
        raise _refusal("min_p", params.min_p, "it must be between 0 and 1")
    for field in ("presence_penalty", "frequency_penalty"):
        if not -2 <= getattr(params, field) <= 2:
            raise _refusal(field, getattr(params, field), "it must be between -2 and 2")
    if not 0.01 <= params.repetition_penalty <= 100:
        raise _refusal("repetition_penalty", params.repetition_penalty, "it must be between 0.01 and 100; 1 is off")


def _check_logit_bias(bias: Any) -> None:
    if not isinstance(bias, dict):
        raise _refusal("logit_bias", bias, "it must map token ids to numbers")
    if len(bias) > MAX_LOGIT_BIASES:
        raise _refusal("logit_bias", f"{len(bias)} entries", f"at most {MAX_LOGIT_BIASES} are taken")
    for token_id, value in bias.items():
        if not _is_int(token_id) or token_id < 0:
            raise _refusal("logit_bias", token_id, "its keys must be token ids")
        if not _is_number(value) or not -100 <= value <= 100:
            raise _refusal("logit_bias", value, "its values must be between -100 and 100")


def _check_allowed(ids: Any) -> None:
    if ids is None:
        return
    if not isinstance(ids, list) or not set(map(type, ids)) <= {int}:
        raise _refusal("allowed_token_ids", ids, "it must be a list of token ids, or null to allow all")
    if not ids:
        raise _refusal("allowed_token_ids", ids, "an empty list leaves nothing to draw: give at least one id, or null to allow all")


def _check_bad_words(words: Any) -> None:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _refusal("bad_words", words, "it must be a list of strings")
    if len(words) > MAX_BAD_WORDS:
        raise _refusal("bad_words", f"{len(words)} strings", f"at most {MAX_BAD_WORDS} are taken")
    for word in words:
        if not word.strip():
            raise _refusal("bad_words", word, "a word of nothing but white space would forbid too much: leave it out")
        if len(word) > MAX_BAD_WORD_LENGTH:
            raise _refusal("bad_words", f"{len(word)} characters long", f"a word has at most {MAX_BAD_WORD_LENGTH}")


def _check_processors(processors: Any) -> None:
    if not isinstance(processors, dict) or not all(isinstance(name, str) for name in processors):
        raise _refusal("logits_processors", processors, "it must map names of processors to what they are made from")
    for name, argument in processors.items():
        if (problem := json_problem(argument)) is not None:
            raise InvalidRequestError(f"the argument of logits processor {name!r} holds {problem}", param="logits_processors")


def _check_stops(params: SamplingParams) -> None:
    if not isinstance(params.stop, list) or not all(isinstance(text, str) for text in params.stop):
        raise _refusal("stop", params.stop, "it must be a list of strings")
    if len(params.stop) > MAX_STOP_STRINGS:
        raise _refusal("stop", f"{len(params.stop)} strings", f"at most {MAX_STOP_STRINGS} are taken")
    if "" in params.stop:
        raise _refusal("stop", "", "an empty stop string would end every text at once: leave it out")
    if params.stop and not params.detokenize:
        raise _refusal("stop", params.stop, "stop strings need text: set detokenize=True or use stop_token_ids")
    if not isinstance(params.stop_token_ids, list) or not all(_is_int(i) for i in params.stop_token_ids):
        raise _refusal("stop_token_ids", params.stop_token_ids, "it must be a list of token ids")
