"""Which requests run in a step, how many tokens each, and what comes of it."""

import secrets
import time
from collections import deque
from dataclasses import replace
from functools import partial

from octavo.cache.lookup import CachedPrefix
from octavo.cache.manager import KVCacheManager
from octavo.config.scheduler import SchedulerConfig
from octavo.engine.load import LoadReport
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import InvalidRequestError
from octavo.logprobs import LogprobRows
from octavo.metrics.stats import EngineCounters, EngineStats, step_token_histogram
from octavo.request import Request, RequestState
from octavo.scheduler.cost import cut_chunk
from octavo.scheduler.draft import Flight, StepDraft
from octavo.scheduler.ending import ending_of
from octavo.scheduler.limits import check_tokens, max_total_tokens
from octavo.scheduler.pace import Pace
from octavo.scheduler.plan import StepPlan, StepResult
from octavo.scheduler.policy import SchedulerPolicy
from octavo.scheduler.queue import RequestQueue
from octavo.scheduler.shortfall import shortfall
from octavo.scheduler.tenants import TenantBook
from octavo.types import FinishReason

GROUP_SALT_BYTES = 16


class Scheduler:
    """Owns every request from `add` to its end. Only `schedule` and `update` move requests on; aborts apply between steps.

    There is no prefill or decode phase: a request runs the tokens that it has and that are not computed. Several plans may be open;
    `schedule` never looks at a sampled token, and `update` takes results in the order of the plans. Running requests are served first,
    then waiting ones, both in the policy's order; when blocks run out, the last running request gives way.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        policy: SchedulerPolicy,
        cache: KVCacheManager,
        *,
        max_model_len: int,
        eos_token_ids: frozenset[int],
    ) -> None:
        self._config = config
        self._cache = cache
        self._max_model_len = max_model_len
        self._eos_token_ids = eos_token_ids
        self._cut_chunk = partial(cut_chunk, most=config.max_chunk, scale=config.context_scale)
        self._pace = Pace(config)
        self._requests: dict[str, Request] = {}
        self._running = RequestQueue(policy)
        self._waiting = RequestQueue(policy)
        self._followers: dict[str, list[Request]] = {}
        self._flights: deque[Flight] = deque()
        self._removed: list[str] = []
        self._refused: Request | None = None
        self._free_when_refused = 0
        self._counters = EngineCounters()
        self._step_tokens = step_token_histogram()
        self._tenants = TenantBook(cache.ledger)
        self._arrivals = 0
        self._prompt_tokens = 0
        self._left_waiting = False

    def add(self, message: EngineRequest) -> None:
        """Queue a request. Raises `InvalidRequestError`, and nothing changes, where it could never run or its id is in use."""
        if message.request_id in self._requests:
            raise InvalidRequestError(f"request_id {message.request_id!r} is in use: choose another", param="request_id")
        check_tokens(message.token_ids)
        limit = max_total_tokens(message, max_model_len=self._max_model_len, pool_tokens=self._cache.max_tokens)
        request = Request.from_message(message, arrival=self._arrivals, max_total_tokens=limit)
        leader = self._requests.get(message.leader) if message.leader is not None else None
        self._arrivals += 1
        self._requests[request.request_id] = request
        self._prompt_tokens += request.num_prompt_tokens
        if leader is None:
            self._waiting.add(request)
        else:
            self._join(leader, request)

    def abort(self, request_id: str) -> bool:
        """End a request wherever it stands; False where there is none of that id. It gets no output any more."""
        request = self._requests.get(request_id)
        if request is None:
            return False
        self._end(request, FinishReason.ABORT)
        return True

    def finish(self, request_id: str, num_output_tokens: int) -> EngineOutput | None:
        """End a request whose text met a stop string after `num_output_tokens`: its last output, or None where there is none of that id.

        Counts as stop; what was generated beyond counts as overrun.
        """
        request = self._requests.get(request_id)
        if request is None:
            return None
        overrun = max(0, len(request.token_ids) - request.num_prompt_tokens - num_output_tokens)
        self._counters.overrun_tokens += overrun
        return self._end(request, FinishReason.STOP, overrun=overrun)

    def has_work(self) -> bool:
        """Whether a request lives, a result is awaited or the runner is to forget something."""
        return bool(self._requests or self._flights or self._removed)

    def schedule(self) -> StepPlan | None:
        """Make the next step; None where nothing can run before a result comes or a request is added."""
        # Those that generate never pause, however slow the steps.
        budget = max(self._pace.budget, len(self._running))
        draft = StepDraft(budget, self._removed, self._eos_token_ids)
        self._removed = []
        preemptions = self._counters.preemptions
        self._schedule_running(draft)
        if self._counters.preemptions == preemptions:
            self._schedule_waiting(draft)
        self._left_waiting = len(self._running) < min(len(self._requests), self._config.max_num_seqs)
        plan = draft.plan(self._counters.steps)
        if plan is not None:
            self._counters.steps += 1
            if draft.rows:
                self._step_tokens.observe(draft.num_tokens)
            self._flights.append(Flight(plan.step_id, draft.rows, budget - draft.budget))
        return plan

    def update(self, plan: StepPlan, result: StepResult) -> list[EngineOutput]:
        """Take the result of the oldest open plan: what each request gained. Results for what was preempted or ended since are dropped."""
        flight = self._flights.popleft()
        assert flight.step_id == plan.step_id == result.step_id, "results come in the order of the plans"
        self._pace.observe(flight.cost, result.forward_s)
        self._counters.forward_s += result.forward_s
        self._counters.sample_s += result.sample_s
        outputs, now = [], time.monotonic()
        for request, epoch, reaches_end in flight.rows:
            name = request.request_id
            if result.prompt_logprobs and request.epoch == epoch and name in result.prompt_logprobs:
                request.add_prompt_logprobs(result.prompt_logprobs[name])
            if result.errors and name in result.errors:
                output = self._fail(request, epoch, result.errors[name], is_sound=name in result.sound)
            elif reaches_end and request.epoch == epoch and request.state is RequestState.RUNNING:
                output = self._take(request, result, now)
            else:
                continue
            if output is not None:
                outputs.append(output)
        return outputs

    def reset_prefix_cache(self) -> bool:
        """Forget every prefix. False, and nothing changes, while requests hold blocks."""
        return self._cache.reset_prefix_cache()

    def stats(self) -> EngineStats:
        """Counters and gauges at this moment."""
        return EngineStats(
            counters=replace(self._counters, finished=dict(self._counters.finished)),
            running=len(self._running),
            waiting=len(self._requests) - len(self._running),
            kv_usage=self._cache.usage,
            step_tokens=self._step_tokens.copy(),
            tenants=self._tenants.snapshot(),
        )

    def load(self) -> LoadReport:
        """What runs and what waits at this moment."""
        running, waiting = len(self._running), len(self._requests) - len(self._running)
        return LoadReport(
            running=running,
            waiting=waiting,
            waiting_tokens=self._prompt_tokens - self._running.prompt_tokens,
            free_places=0 if waiting and self._left_waiting else self._config.max_num_seqs - running,
        )

    def check_integrity(self) -> None:
        """Assert that queues, requests and the cache's books agree; O(blocks + requests)."""
        self._cache.check_integrity()
        followers = [request for group in self._followers.values() for request in group]
        queued = [*self._running.requests, *self._waiting.requests, *followers]
        assert {id(request) for request in queued} == {id(request) for request in self._requests.values()}, "a request is in no queue"
        assert len(queued) == len(self._requests), "a request is in two queues"
        assert self._prompt_tokens == sum(request.num_prompt_tokens for request in queued), "tokens of prompts are miscounted"
        if not self._requests:
            assert self._cache.usage == 0, "blocks are held though no request lives"

    def _join(self, leader: Request, request: Request) -> None:
        """Queue a later member of a group: behind its leader's prompt, whose full blocks it will share."""
        if not self._cache.enable_prefix_caching:
            leader.group_salt = leader.group_salt or secrets.token_bytes(GROUP_SALT_BYTES)
            request.group_salt = leader.group_salt
            self._cache.share_in_group(leader)
        if leader.num_scheduled_tokens < leader.num_prompt_tokens:
            self._followers.setdefault(leader.request_id, []).append(request)
        else:
            self._waiting.add(request)

    def _release_followers(self, leader: Request) -> None:
        for follower in self._followers.pop(leader.request_id, ()):
            self._waiting.add(follower)

    def _schedule_running(self, draft: StepDraft) -> None:
        running, index = self._running.requests, 0
        while index < len(running) and draft.budget:
            request = running[index]
            index += 1
            num_tokens = len(request.token_ids) + request.num_pending
            context, later = request.num_scheduled_tokens, len(running) - index
            count, extra = num_tokens - context, 0
            if count > 1:
                # A long prompt leaves one token of the budget to each request after it: those that generate never pause.
                count, extra = self._cut_chunk(count, context, budget=max(1, draft.budget - later))
            elif count == 0 or (request.num_pending and num_tokens >= request.max_total_tokens):
                continue
            blocks = self._extend(request, request.num_scheduled_tokens + count, draft)
            if blocks is None:
                return
            draft.carry_on(request, blocks)
            self._run(request, count, draft)
            draft.budget -= extra

    def _extend(self, request: Request, num_tokens: int, draft: StepDraft) -> list[list[int]] | None:
        """Find room for a running request, at the cost of the last ones; None where it had to give way itself."""
        while (blocks := self._cache.extend(request, num_tokens)) is None:
            victim = self._running.pop_last()
            self._preempt(victim, draft)
            if victim is request:
                return None
        return blocks

    def _preempt(self, request: Request, draft: StepDraft) -> None:
        self._cache.free(request)
        request.state = RequestState.WAITING
        request.epoch += 1
        request.num_scheduled_tokens = request.num_pending = 0
        request.times.num_preemptions += 1
        self._counters.preemptions += 1
        self._waiting.add(request)
        draft.removed.append(request.request_id)

    def _schedule_waiting(self, draft: StepDraft) -> None:
        now = time.monotonic() if self._waiting else 0.0
        while draft.budget and self._waiting and len(self._running) < self._config.max_num_seqs:
            request = self._waiting.requests[0]
            if request is self._refused and self._cache.num_free <= self._free_when_refused:
                return
            prefix = self._find_cached(request)
            count, extra = self._cut_chunk(len(request.token_ids) - prefix.num_tokens, prefix.num_tokens, budget=draft.budget)
            block_ids = self._cache.allocate(request, prefix, prefix.num_tokens + count, headroom=len(self._running))
            if block_ids is None:
                self._refused, self._free_when_refused = request, self._cache.num_free
                return
            self._waiting.remove(request)
            self._running.add(request)
            request.state = RequestState.RUNNING
            request.num_scheduled_tokens = prefix.num_tokens
            if request.num_cached_tokens < 0:
                self._note_first_admission(request, prefix.num_tokens, now)
            draft.add(request, prefix, block_ids)
            self._run(request, count, draft)
            draft.budget -= extra

    def _find_cached(self, request: Request) -> CachedPrefix:
        """The cached prefix that a request may skip: nothing of a prompt whose tokens it has to see."""
        prefix = self._cache.find_cached(request)
        if request.lacks_prompt_logprobs and prefix.num_tokens > request.num_prompt_logprobs:
            return CachedPrefix(0, [[] for _ in prefix.block_ids])
        return prefix

    def _note_first_admission(self, request: Request, num_cached_tokens: int, now: float) -> None:
        request.num_cached_tokens = num_cached_tokens
        request.times.first_scheduled = now
        self._counters.prompt_tokens += request.num_prompt_tokens
        if self._cache.enable_prefix_caching:
            self._counters.prefix_queries += request.num_prompt_tokens
            self._counters.prefix_hits += num_cached_tokens

    def _run(self, request: Request, count: int, draft: StepDraft) -> None:
        start = request.num_scheduled_tokens
        draft.run(request, count)
        if count == 1 and start >= request.num_prompt_tokens:
            return
        self._cache.register(request)
        self._counters.prompt_tokens_computed += max(0, min(start + count, request.num_prompt_tokens) - start)
        if self._followers and request.num_scheduled_tokens >= request.num_prompt_tokens:
            self._release_followers(request)

    def _take(self, request: Request, result: StepResult, now: float) -> EngineOutput | None:
        """Add what a step sampled for a running request, and end it if that ends it."""
        if (missing := shortfall(request, result)) is not None:
            return self._fail(request, request.epoch, missing)
        if request.max_total_tokens == request.num_prompt_tokens:
            return self._end(request, FinishReason.LENGTH)
        token_ids = result.token_ids[request.request_id]
        logprobs = result.logprobs.get(request.request_id) if result.logprobs else None
        request.num_pending -= 1
        request.token_ids += token_ids
        self._counters.generated_tokens += 1
        if not request.times.first_token:
            request.times.first_token = now
        self._cache.register(request)
        ending = ending_of(request, self._eos_token_ids)
        if ending is not None:
            return self._end(request, ending[0], new_token_ids=token_ids, logprobs=logprobs, stop_reason=ending[1])
        return EngineOutput(
            request_id=request.request_id,
            new_token_ids=token_ids,
            num_cached_tokens=request.num_cached_tokens,
            logprobs=logprobs,
            prompt_logprobs=request.take_prompt_logprobs(),
        )

    def _fail(self, request: Request, epoch: int, error: str, *, is_sound: bool = False) -> EngineOutput | None:
        """Let nobody share what a failed request computed, unless that is sound, and end it if it did not move on since."""
        if not is_sound:
            self._cache.withdraw(request)
        if request.epoch != epoch or request.state is not RequestState.RUNNING:
            return None
        return self._end(request, FinishReason.ERROR, error=error)

    def _end(
        self,
        request: Request,
        reason: FinishReason,
        *,
        new_token_ids: list[int] | None = None,
        logprobs: LogprobRows | None = None,
        stop_reason: int | None = None,
        error: str | None = None,
        overrun: int = 0,
    ) -> EngineOutput:
        """Take a request out of every book."""
        if request.state is RequestState.RUNNING:
            self._running.remove(request)
            self._removed.append(request.request_id)
        elif (held := self._followers.get(request.leader or "", [])) and request in held:
            held.remove(request)
        else:
            self._waiting.remove(request)
        if request is self._refused:
            self._refused = None
        del self._requests[request.request_id]
        self._prompt_tokens -= request.num_prompt_tokens
        self._cache.forget(request)
        request.state = RequestState.FINISHED
        request.times.finished = time.monotonic()
        self._counters.finished[reason] += 1
        self._tenants.note_end(request, len(request.token_ids) - request.num_prompt_tokens - overrun)
        self._release_followers(request)
        return EngineOutput(
            request_id=request.request_id,
            new_token_ids=new_token_ids or [],
            num_cached_tokens=max(0, request.num_cached_tokens),
            finish_reason=reason,
            stop_reason=stop_reason,
            error=error,
            times=request.times,
            logprobs=logprobs,
            prompt_logprobs=request.take_prompt_logprobs(),
        )
