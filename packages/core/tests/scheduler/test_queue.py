import random

import pytest

from octavo.engine.messages import EngineRequest
from octavo.request import Request
from octavo.sampling_params import SamplingParams
from octavo.scheduler.policy import FirstComeFirstServed, Priority
from octavo.scheduler.queue import RequestQueue


def make_request(arrival: int, priority: int = 0) -> Request:
    message = EngineRequest(request_id=str(arrival), token_ids=[1], params=SamplingParams(), arrival_time=0, seed=0, priority=priority)
    return Request.from_message(message, arrival=arrival, max_total_tokens=2)


def test_requests_stand_in_the_policys_order_however_they_come() -> None:
    requests = [make_request(arrival, arrival % 3) for arrival in range(20)]
    queue = RequestQueue(Priority())
    for request in random.Random(0).sample(requests, 20):
        queue.add(request)
    assert queue.requests == sorted(requests, key=lambda request: (request.priority, request.arrival))
    queue.remove(requests[7])
    assert requests[7] not in queue.requests
    assert len(queue) == 19
    assert queue.requests[0] is requests[0]
    assert queue.pop_last() is requests[17]


def test_removing_what_is_not_queued_is_a_bug() -> None:
    queue = RequestQueue(FirstComeFirstServed())
    queue.add(make_request(2))
    with pytest.raises(AssertionError, match="not queued"):
        queue.remove(make_request(1))
