import asyncio
from typing import Any

import pytest

from octavo import SamplingParams
from octavo.engine.messages import RequestTimes
from octavo.types import FinishReason
from octavo_server.metrics.definitions import REQUEST_HISTOGRAMS
from octavo_server.metrics.requests import RequestMetrics

PARAMS = SamplingParams(max_tokens=7)
TIMES = RequestTimes(arrival=101.0, first_scheduled=103.0, first_token=104.0, finished=108.0, num_preemptions=2)
EACH_REQUEST = ["e2e_request_latency_seconds", "request_prompt_tokens", "request_generation_tokens", "request_params_n"]


def counts(sample: Any) -> dict[str, float]:
    return {item.name: sample(f"{item.name}_count") for item in REQUEST_HISTOGRAMS}


def test_a_streamed_request_fills_every_histogram(metrics: RequestMetrics, clock: Any, sample: Any) -> None:
    observation = metrics.request("someone", "m")
    clock.wait(1)
    observation.queued(10, PARAMS)
    clock.wait(3)
    observation.tokens(1)
    clock.wait(2)
    observation.tokens(1)
    clock.wait(2)
    observation.tokens(2)
    observation.finished(FinishReason.STOP, TIMES, num_cached_tokens=4)
    sums = {item.name: sample(f"{item.name}_sum") for item in REQUEST_HISTOGRAMS}
    assert sums == {
        "time_to_first_token_seconds": 4,
        "inter_token_latency_seconds": 4,
        "request_time_per_output_token_seconds": pytest.approx(4 / 3),
        "e2e_request_latency_seconds": 8,
        "request_queue_time_seconds": 2,
        "request_prefill_time_seconds": 1,
        "request_decode_time_seconds": 4,
        "request_inference_time_seconds": 5,
        "request_prompt_tokens": 10,
        "request_prefill_kv_computed_tokens": 6,
        "request_generation_tokens": 4,
        "request_params_n": 1,
        "request_params_max_tokens": 7,
        "request_num_preemptions": 2,
    }
    assert counts(sample) == dict.fromkeys(sums, 1) | {"inter_token_latency_seconds": 3}
    assert sample("inter_token_latency_seconds_bucket", le="1.0") == 2


def test_tokens_that_nobody_watched_are_timed_by_the_engine(metrics: RequestMetrics, clock: Any, sample: Any) -> None:
    observation = metrics.request("", "m")
    observation.queued(10, PARAMS)
    clock.wait(8)
    observation.tokens(5)
    observation.finished(FinishReason.LENGTH, TIMES)
    assert sample("time_to_first_token_seconds_sum") == 4
    assert sample("inter_token_latency_seconds_count") == 4
    assert sample("inter_token_latency_seconds_sum") == 4


def test_choices_are_one_request_with_gaps_of_their_own(metrics: RequestMetrics, clock: Any, sample: Any) -> None:
    observation = metrics.request("", "m")
    observation.queued(10, SamplingParams(n=2, temperature=1.0))
    clock.wait(1)
    observation.tokens(1, 0)
    clock.wait(1)
    observation.tokens(1, 1)
    clock.wait(2)
    observation.tokens(1, 0)
    observation.tokens(1, 1)
    observation.finished(FinishReason.STOP)
    assert sample("time_to_first_token_seconds_sum") == 1
    assert sample("inter_token_latency_seconds_sum") == 3 + 2
    assert sample("request_generation_tokens_sum") == 4
    assert sample("request_params_n_sum") == 2
    assert sample("request_success_total", finished_reason="stop") == 1


def test_aborted_requests_are_counted_like_all_others(metrics: RequestMetrics, sample: Any) -> None:
    for index, reason in enumerate([FinishReason.ABORT] * 5 + [FinishReason.STOP] * 2 + [FinishReason.LENGTH]):
        observation = metrics.request("", "m")
        observation.queued(10 + index, PARAMS)
        observation.finished(reason)
    ends = {reason.value: sample("request_success_total", finished_reason=reason.value) for reason in FinishReason}
    assert ends == {"stop": 2, "length": 1, "abort": 5, "error": 0}
    assert [sample(f"{name}_count") for name in EACH_REQUEST] == [8] * len(EACH_REQUEST)
    assert sample("request_prompt_tokens_sum") == sum(range(10, 18))


def test_a_request_that_was_not_queued_leaves_no_trace(metrics: RequestMetrics, sample: Any) -> None:
    metrics.request("", "m").finished(FinishReason.ERROR)
    with pytest.raises(ValueError), metrics.request("", "m"):
        raise ValueError
    assert set(counts(sample).values()) == {0}
    assert sample("request_success_total", finished_reason="error") == 0


def test_a_request_ends_once(metrics: RequestMetrics, sample: Any) -> None:
    with metrics.request("", "m") as observation:
        observation.queued(10, PARAMS)
        observation.finished(FinishReason.STOP, TIMES)
        observation.finished(FinishReason.ABORT)
    assert sample("request_success_total", finished_reason="stop") == 1
    assert sample("request_success_total", finished_reason="abort") == 0


@pytest.mark.parametrize(
    ("error", "reason"), [(None, "abort"), (asyncio.CancelledError, "abort"), (GeneratorExit, "abort"), (RuntimeError, "error")]
)
def test_a_block_that_is_left_without_an_end_counts_one(
    metrics: RequestMetrics, sample: Any, error: type[BaseException] | None, reason: str
) -> None:
    def leave() -> None:
        with metrics.request("", "m") as observation:
            observation.queued(10, PARAMS)
            if error is not None:
                raise error

    if error is None:
        leave()
    else:
        with pytest.raises(error):
            leave()
    assert sample("request_success_total", finished_reason=reason) == 1


def test_a_request_without_a_limit_has_no_entry_among_the_limits(metrics: RequestMetrics, sample: Any) -> None:
    observation = metrics.request("", "m")
    observation.queued(10, SamplingParams(max_tokens=None))
    observation.finished(FinishReason.STOP)
    assert sample("request_params_max_tokens_count") == 0


def test_requests_are_counted_by_tenant_and_known_tenants_begin_at_zero(metrics: RequestMetrics, sample: Any) -> None:
    observation = metrics.request("someone", "m")
    assert sample("tenant_requests_total", tenant="known", finished_reason="error") == 0
    observation.queued(1, PARAMS)
    observation.finished(FinishReason.STOP)
    assert sample("tenant_requests_total", tenant="someone", finished_reason="stop") == 1
