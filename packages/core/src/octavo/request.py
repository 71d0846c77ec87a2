"""A request as the scheduler sees it."""

from dataclasses import dataclass, field
from enum import Enum, auto

from octavo.engine.messages import EngineRequest, RequestTimes
from octavo.logprobs import LogprobRows, join
from octavo.sampling_params import SamplingParams


class RequestState(Enum):
    """WAITING -> RUNNING -> FINISHED; preemption leads from RUNNING back to WAITING."""

    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(eq=False, slots=True)
class Request:
    """Token lists and counters of one sequence. Only `Scheduler.schedule` and `Scheduler.update` change it.

    Attributes:
        request_id: unique in the engine.
        arrival: running number given by the scheduler; the order of first come, first served.
        token_ids: prompt, then known output.
        num_prompt_tokens: length of the prompt.
        max_total_tokens: prompt plus output at most, from `max_tokens` and the context.
        num_scheduled_tokens: tokens whose KV is in the cache or will be by the steps under way.
        num_pending: sampled tokens that steps under way will bring (placeholders).
        num_cached_tokens: prompt tokens found in the prefix cache on first admission; -1 before it.
        epoch: counts preemptions.
        group_salt: keeps the blocks that a group of continuations shares from everybody else, where the prefix cache is off.
        stop_token_ids: those of `params`, for quick look-up.
        bad_sequences: those of the message.
        prompt_logprobs: parts, in order, of what `params.prompt_logprobs` asks for; None where it asks for nothing or has got it.
        num_prompt_logprobs: tokens of the prompt, behind its first, whose log-probabilities have come.
        tenant: that of the message.
    """

    request_id: str
    params: SamplingParams
    seed: int
    priority: int
    arrival: int
    token_ids: list[int]
    num_prompt_tokens: int
    max_total_tokens: int
    leader: str | None = None
    cache_salt: str | None = None
    state: RequestState = RequestState.WAITING
    epoch: int = 0
    num_scheduled_tokens: int = 0
    num_pending: int = 0
    num_cached_tokens: int = -1
    times: RequestTimes = field(default_factory=RequestTimes)
    group_salt: bytes | None = None
    stop_token_ids: frozenset[int] = frozenset()
    bad_sequences: list[list[int]] = field(default_factory=list)
    prompt_logprobs: list[LogprobRows] | None = None
    num_prompt_logprobs: int = 0
    tenant: str = ""

    @property
    def lacks_prompt_logprobs(self) -> bool:
        """Whether tokens of the prompt have yet to be run for their log-probabilities."""
        return self.params.prompt_logprobs is not None and self.num_prompt_logprobs < self.num_prompt_tokens - 1

    def add_prompt_logprobs(self, rows: LogprobRows) -> None:
        """Take in the next part."""
        assert self.prompt_logprobs is not None, f"request {self.request_id} asked for no log-probabilities of its prompt"
        self.prompt_logprobs.append(rows)
        self.num_prompt_logprobs += len(rows)

    def take_prompt_logprobs(self) -> LogprobRows | None:
        """All parts as one, once they are complete; None before, where none were asked for, and when they were taken."""
        if self.prompt_logprobs is None or self.lacks_prompt_logprobs:
            return None
        parts, self.prompt_logprobs = self.prompt_logprobs, None
        return join(parts)

    @classmethod
    def from_message(cls, message: EngineRequest, *, arrival: int, max_total_tokens: int) -> "Request":
        """Take a message in; its token list is copied."""
        return cls(
            request_id=message.request_id,
            params=message.params,
            seed=message.seed,
            priority=message.priority,
            arrival=arrival,
            token_ids=list(message.token_ids),
            num_prompt_tokens=len(message.token_ids),
            max_total_tokens=max_total_tokens,
            leader=message.leader,
            cache_salt=message.cache_salt,
            times=RequestTimes(arrival=message.arrival_time),
            stop_token_ids=frozenset(message.params.stop_token_ids),
            bad_sequences=message.bad_sequences,
            prompt_logprobs=None if message.params.prompt_logprobs is None else [],
            tenant=message.tenant,
        )
