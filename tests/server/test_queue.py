"""Requests that come at once."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.server.running import Launcher


def test_what_is_over_the_limit_is_refused_at_once_and_the_rest_is_answered(launch: Launcher) -> None:
    server = launch.ready("--max-num-seqs", "1", "--max-queued-requests", "4")
    with server.client(limits=httpx.Limits(max_connections=20)) as client, ThreadPoolExecutor(10) as pool:

        def ask(count: int) -> tuple[httpx.Response, float]:
            body = {"prompt": "hello", "max_tokens": 30, "ignore_eos": True, "n": count}
            return client.post("/v1/completions", json=body), time.monotonic()

        answers = list(pool.map(ask, [1] * 10))
        too_many, _ = ask(6)
        fitting, _ = ask(5)
    first_answered = min(ended for answer, ended in answers if answer.status_code == 200)
    statuses = sorted(answer.status_code for answer, _ in answers)
    assert statuses == [200] * 5 + [503] * 5
    for answer, ended in answers:
        if answer.status_code == 503:
            assert answer.json()["error"]["code"] == "queue_full"
            assert int(answer.headers["retry-after"]) > 0
            assert ended < first_answered
    assert (too_many.status_code, fitting.status_code) == (503, 200)
