"""Requests kept in the order of a policy."""

from bisect import bisect_left

from octavo.request import Request
from octavo.scheduler.policy import SchedulerPolicy


class RequestQueue:
    """A list sorted by the policy's key. Adding and removing cost a binary search, never a sort.

    Attributes:
        requests: in order; only the queue changes it.
        prompt_tokens: of all of them together.
    """

    def __init__(self, policy: SchedulerPolicy) -> None:
        self.requests: list[Request] = []
        self.prompt_tokens = 0
        self._policy = policy
        self._keys: list[tuple[int, ...]] = []

    def __len__(self) -> int:
        return len(self.requests)

    def add(self, request: Request) -> None:
        """Put a request in its place."""
        key = self._policy.key(request)
        index = bisect_left(self._keys, key)
        self._keys.insert(index, key)
        self.requests.insert(index, request)
        self.prompt_tokens += request.num_prompt_tokens

    def remove(self, request: Request) -> None:
        """Take out a request that is in the queue."""
        index = bisect_left(self._keys, self._policy.key(request))
        assert self.requests[index] is request, f"request {request.request_id} is not queued, or its key changed"
        del self._keys[index], self.requests[index]
        self.prompt_tokens -= request.num_prompt_tokens

    def pop_last(self) -> Request:
        """Take out the request with the largest key."""
        self._keys.pop()
        request = self.requests.pop()
        self.prompt_tokens -= request.num_prompt_tokens
        return request
