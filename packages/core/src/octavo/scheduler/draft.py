"""A plan in the making, and what the scheduler remembers of it until its result comes."""

from dataclasses import dataclass

from octavo.cache.lookup import CachedPrefix
from octavo.request import Request
from octavo.scheduler.ending import ending_token_ids
from octavo.scheduler.plan import AddedRequest, ContinuedRequest, StepPlan

Row = tuple[Request, int, bool]
"""A request of a step, its epoch then, and whether the step reaches the end of its tokens."""


@dataclass(frozen=True)
class Flight:
    """A step whose result is awaited."""

    step_id: int
    rows: list[Row]
    cost: int


class StepDraft:
    """Collects one step.

    Attributes:
        budget: tokens that the step can still take.
        num_tokens: that it takes.
        removed: ids that the runner is to forget.
        rows: the requests of the step in batch order.
    """

    def __init__(self, budget: int, removed: list[str], eos_token_ids: frozenset[int]) -> None:
        self.budget = budget
        self.num_tokens = 0
        self.removed = removed
        self.rows: list[Row] = []
        self._eos_token_ids = eos_token_ids
        self._added: list[AddedRequest] = []
        self._continued: list[ContinuedRequest] = []
        self._num_tokens: dict[str, int] = {}
        self._num_output_tokens: dict[str, int] = {}

    def add(self, request: Request, prefix: CachedPrefix, block_ids: list[list[int]]) -> None:
        """Hand a request to the runner with all its tokens."""
        added = AddedRequest(
            request_id=request.request_id,
            epoch=request.epoch,
            token_ids=list(request.token_ids),
            num_prompt_tokens=request.num_prompt_tokens,
            num_computed_tokens=prefix.num_tokens,
            block_ids=block_ids,
            params=request.params,
            ending_token_ids=ending_token_ids(request, self._eos_token_ids),
            seed=request.seed,
            bad_sequences=request.bad_sequences,
            num_prompt_logprobs=request.num_prompt_logprobs,
        )
        self._added.append(added)

    def carry_on(self, request: Request, new_block_ids: list[list[int]]) -> None:
        """Let a request that the runner holds go on."""
        continued = ContinuedRequest(
            request_id=request.request_id,
            epoch=request.epoch,
            num_computed_tokens=request.num_scheduled_tokens,
            new_block_ids=new_block_ids,
        )
        self._continued.append(continued)

    def run(self, request: Request, count: int) -> None:
        """Let a request run its next `count` tokens: advances its counters, with a placeholder where the step samples for it."""
        end = request.num_scheduled_tokens + count
        known_or_coming = len(request.token_ids) + request.num_pending
        assert 0 < count <= self.budget, "a step is over its budget"
        assert end <= known_or_coming, f"request {request.request_id} has no tokens left to run"
        reaches_end = end == known_or_coming
        request.num_scheduled_tokens = end
        self.budget -= count
        self.num_tokens += count
        self._num_tokens[request.request_id] = count
        self.rows.append((request, request.epoch, reaches_end))
        if reaches_end and request.max_total_tokens > request.num_prompt_tokens:
            self._num_output_tokens[request.request_id] = known_or_coming - request.num_prompt_tokens
            request.num_pending += 1

    def plan(self, step_id: int) -> StepPlan | None:
        """The step; None where there is nothing to do."""
        if not self.rows and not self.removed:
            return None
        return StepPlan(
            step_id=step_id,
            removed=self.removed,
            added=self._added,
            continued=self._continued,
            num_tokens=self._num_tokens,
            num_output_tokens=self._num_output_tokens,
        )
