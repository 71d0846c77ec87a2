"""An order of service."""

from octavo.request import Request
from octavo.scheduler.policy import SchedulerPolicy


class LeastWorkFirst(SchedulerPolicy):
    """By the tokens that a request may come to, prompt and output; then by arrival."""

    def key(self, request: Request) -> tuple[int, ...]:
        return (request.max_total_tokens, request.arrival)
