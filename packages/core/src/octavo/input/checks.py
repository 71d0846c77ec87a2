"""What of a request's parameters depends on the engine that is to run it."""

from octavo.engine.messages import ModelInfo
from octavo.errors import InvalidRequestError
from octavo.sampling_params import SamplingParams, check_against_vocabulary


def check_params(params: SamplingParams, info: ModelInfo) -> None:
    """Refuse what an engine cannot do, before anything is queued. Raises `InvalidRequestError`."""
    check_against_vocabulary(params, info.vocab_size)
    for field in ("logprobs", "prompt_logprobs"):
        if (value := getattr(params, field)) is not None and value > info.max_logprobs:
            raise InvalidRequestError(
                f"{field} is {value}, but at most {info.max_logprobs} are given: ask for fewer, or start with another max_logprobs",
                param=field,
            )
    _check_processors(params, info)
    _check_something_is_left(params, info)


def _check_processors(params: SamplingParams, info: ModelInfo) -> None:
    for name in params.logits_processors:
        if name not in info.logits_processors:
            known = ", ".join(info.logits_processors) or "none"
            raise InvalidRequestError(f"unknown logits processor {name!r}: there are {known}", param="logits_processors")


def _check_something_is_left(params: SamplingParams, info: ModelInfo) -> None:
    """Before `min_tokens` no token may end the output: others must be allowed."""
    if params.allowed_token_ids is None or params.min_tokens == 0:
        return
    ending = {*params.stop_token_ids, *(() if params.ignore_eos else info.eos_token_ids)}
    if ending.issuperset(params.allowed_token_ids):
        raise InvalidRequestError(
            f"allowed_token_ids holds only tokens that end the output, but min_tokens is {params.min_tokens}: allow others, or set it to 0",
            param="allowed_token_ids",
        )
