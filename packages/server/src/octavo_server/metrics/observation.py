"""One request as it is observed: told what happens to it, it fills the histograms."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from octavo import SamplingParams
from octavo.engine.messages import RequestTimes
from octavo.types import FinishReason
from octavo_server.metrics import definitions as define
from octavo_server.metrics.series import ModelSeries


class RequestObservation:
    """Observes one prompt and its choices, for the event loop's thread. Arrival is when this is made.

    A request that was never `queued` was refused and leaves no trace. One that was is counted exactly once: by the first call of
    `finished`, or at the end of the context as aborted (as an error, where an exception ends it that is no cancellation).
    """

    __slots__ = ("_arrival", "_clock", "_first", "_is_open", "_last", "_num_prompt_tokens", "_num_tokens", "_params", "_series", "_tenant")

    def __init__(self, series: ModelSeries, tenant: str, clock: Callable[[], float]) -> None:
        self._series = series
        self._tenant = tenant
        self._clock = clock
        self._arrival = clock()
        self._is_open = False
        self._num_prompt_tokens = 0
        self._num_tokens: list[int] = []
        self._params: SamplingParams | None = None
        self._first: float | None = None
        self._last: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        was_left = error is None or isinstance(error, (asyncio.CancelledError, GeneratorExit))
        self.finished(FinishReason.ABORT if was_left else FinishReason.ERROR)

    def queued(self, num_prompt_tokens: int, params: SamplingParams) -> None:
        """The engine has got the request."""
        self._is_open = True
        self._num_prompt_tokens = num_prompt_tokens
        self._params = params
        self._last = [0.0] * params.n
        self._num_tokens = [0] * params.n

    def tokens(self, count: int, index: int = 0) -> None:
        """A choice gained tokens just now; call it once for all that came together."""
        now, last = self._clock(), self._last[index]
        self._last[index] = now
        self._num_tokens[index] += count
        if last:
            if self._first is not None:
                self._observe_first(self._first)
            self._series.gaps.observe((now - last) / count, count)
        elif sum(self._num_tokens) == count:
            # Whether this was the first token or, unwatched until now, the whole output shows with what comes next.
            self._first = now

    def finished(self, reason: FinishReason, times: RequestTimes | None = None, num_cached_tokens: int = 0) -> None:
        """The request ended; later calls change nothing.

        Args:
            reason: of several choices' reasons the gravest: error, abort, length, stop.
            times: of the engine, where it told them.
            num_cached_tokens: of the prompt, found in the prefix cache.
        """
        if not self._is_open:
            return
        self._is_open = False
        params, series = self._params, self._series
        assert params is not None
        series.count(self._tenant, reason)
        series.observe(define.END_TO_END, self._clock() - self._arrival)
        series.observe(define.PROMPT_TOKENS, self._num_prompt_tokens)
        series.observe(define.GENERATION_TOKENS, sum(self._num_tokens))
        series.observe(define.PARAMS_N, params.n)
        if params.max_tokens is not None:
            series.observe(define.PARAMS_MAX_TOKENS, params.max_tokens)
        if times is not None and times.first_scheduled:
            series.observe(define.COMPUTED_TOKENS, self._num_prompt_tokens - num_cached_tokens)
            self._observe_times(times)
        if self._first is not None:
            self._observe_first(self._first)
        series.gaps.flush()

    def _observe_times(self, times: RequestTimes) -> None:
        series = self._series
        series.observe(define.PREEMPTIONS, times.num_preemptions)
        series.observe(define.QUEUE_TIME, times.first_scheduled - times.arrival)
        series.observe(define.INFERENCE_TIME, times.finished - times.first_scheduled)
        if not times.first_token:
            return
        decode = times.finished - times.first_token
        series.observe(define.PREFILL_TIME, times.first_token - times.first_scheduled)
        series.observe(define.DECODE_TIME, decode)
        # The times are those of the first choice.
        following = self._num_tokens[0] - 1
        if following > 0:
            series.observe(define.TIME_PER_OUTPUT_TOKEN, decode / following)
        if self._first is None:
            return
        # All that was seen came at once: the engine knows better when the first token was there, and how far apart the others were.
        self._first = times.first_token
        if following > 0:
            series.gaps.observe(decode / following, sum(max(0, count - 1) for count in self._num_tokens))

    def _observe_first(self, moment: float) -> None:
        self._first = None
        self._series.observe(define.TIME_TO_FIRST_TOKEN, max(0.0, moment - self._arrival))
