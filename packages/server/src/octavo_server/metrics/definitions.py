"""Names, meanings and buckets of what is observed of requests. Names are vLLM's where the thing is the same."""

import re
from dataclasses import dataclass

from octavo.errors import ConfigurationError

DEFAULT_PREFIX = "octavo:"
MODEL_LABEL = "model_name"
TENANT_LABEL = "tenant"
REASON_LABEL = "finished_reason"

_NAMES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")

_FAST_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0)
_GAP_SECONDS = (0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 10.0)
_SLOW_SECONDS = (
    0.005,
    0.01,
    0.05,
    0.1,
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    60.0,
    120.0,
    240.0,
    480.0,
    960.0,
)
_TOKENS = (*(float(step * 10**power) for power in range(6) for step in (1, 2, 5)), 1e6)
_CHOICES = (1.0, 2.0, 5.0, 10.0, 20.0)
_PREEMPTIONS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)


@dataclass(frozen=True, kw_only=True)
class HistogramDefinition:
    """One histogram of requests, labelled with the model.

    Attributes:
        name: without prefix.
        meaning: its help text.
        buckets: upper ends, ascending.
    """

    name: str
    meaning: str
    buckets: tuple[float, ...]


def _seconds(name: str, meaning: str, buckets: tuple[float, ...]) -> HistogramDefinition:
    return HistogramDefinition(name=name, meaning=f"{meaning}, in seconds.", buckets=buckets)


def _count(name: str, meaning: str, buckets: tuple[float, ...] = _TOKENS) -> HistogramDefinition:
    return HistogramDefinition(name=name, meaning=f"{meaning}.", buckets=buckets)


TIME_TO_FIRST_TOKEN = _seconds("time_to_first_token_seconds", "From a request's arrival to its first token", _FAST_SECONDS)
INTER_TOKEN_LATENCY = _seconds(
    "inter_token_latency_seconds",
    "Between two tokens of a choice; tokens that come together share the time since those before",
    _GAP_SECONDS,
)
TIME_PER_OUTPUT_TOKEN = _seconds(
    "request_time_per_output_token_seconds", "Mean time between the output tokens of a request, its first excluded", _GAP_SECONDS
)
END_TO_END = _seconds("e2e_request_latency_seconds", "From a request's arrival to its end, however it ended", _SLOW_SECONDS)
QUEUE_TIME = _seconds("request_queue_time_seconds", "From a request's arrival to the first step that it ran in", _SLOW_SECONDS)
PREFILL_TIME = _seconds("request_prefill_time_seconds", "From a request's first step to its first token", _SLOW_SECONDS)
DECODE_TIME = _seconds("request_decode_time_seconds", "From a request's first token to its end", _SLOW_SECONDS)
INFERENCE_TIME = _seconds("request_inference_time_seconds", "From a request's first step to its end", _SLOW_SECONDS)
PROMPT_TOKENS = _count("request_prompt_tokens", "Tokens of a request's prompt")
COMPUTED_TOKENS = _count("request_prefill_kv_computed_tokens", "Tokens of a request's prompt that the prefix cache did not have")
GENERATION_TOKENS = _count("request_generation_tokens", "Output tokens of a request, those of all its choices together")
PARAMS_N = _count("request_params_n", "Choices that a request asked for", _CHOICES)
PARAMS_MAX_TOKENS = _count("request_params_max_tokens", "Output tokens that a request allowed a choice; no entry where it gave no limit")
PREEMPTIONS = _count("request_num_preemptions", "Times that a request gave its memory back to be computed again later", _PREEMPTIONS)

REQUEST_HISTOGRAMS = (
    TIME_TO_FIRST_TOKEN,
    INTER_TOKEN_LATENCY,
    TIME_PER_OUTPUT_TOKEN,
    END_TO_END,
    QUEUE_TIME,
    PREFILL_TIME,
    DECODE_TIME,
    INFERENCE_TIME,
    PROMPT_TOKENS,
    COMPUTED_TOKENS,
    GENERATION_TOKENS,
    PARAMS_N,
    PARAMS_MAX_TOKENS,
    PREEMPTIONS,
)

REQUEST_SUCCESS = "Requests that ended, by the reason: stop, length, abort (its client left), error. One prompt counts once."
TENANT_REQUESTS = "Requests that ended, by tenant (name of the API key) and reason."


def check_prefix(prefix: str) -> str:
    """The same prefix. Raises `ConfigurationError` where no metric can be named so."""
    if not _NAMES.fullmatch(f"{prefix}name"):
        raise ConfigurationError(f"--metrics-prefix {prefix!r} makes no name of a metric: use letters, digits, '_' and ':'")
    return prefix
