from collections.abc import Iterator
from typing import Any

import pytest

from octavo.engine.load import EngineLoad, LoadReport, LoadReports, LoadTracker
from octavo.engine.messages import EngineRequest
from octavo.sampling_params import SamplingParams
from octavo.testing.engine import FakeEngine, fake_engine


def requests(*lengths: int) -> list[EngineRequest]:
    return [
        EngineRequest(request_id=str(index), token_ids=[5] * length, params=SamplingParams(), arrival_time=0.0, seed=0)
        for index, length in enumerate(lengths)
    ]


def load(running: int, waiting: int, waiting_tokens: int) -> EngineLoad:
    return EngineLoad(running=running, waiting=waiting, waiting_tokens=waiting_tokens)


@pytest.mark.parametrize(
    ("report", "sent", "expected"),
    [
        ({}, [], (0, 0, 0)),
        ({}, [3, 4], (0, 2, 7)),
        ({"free_places": 1}, [3, 4], (1, 1, 4)),
        ({"free_places": 8}, [3, 4], (2, 0, 0)),
        ({"running": 2, "waiting": 1, "waiting_tokens": 9}, [3], (2, 2, 12)),
        ({"running": 1, "waiting": 2, "waiting_tokens": 9, "free_places": 1}, [3], (2, 2, 12)),
        ({"running": 1, "waiting": 1, "waiting_tokens": 9, "free_places": 2}, [3, 4], (3, 1, 4)),
    ],
)
def test_requests_on_their_way_wait_unless_there_are_free_places(
    report: dict[str, int], sent: list[int], expected: tuple[int, int, int]
) -> None:
    tracker = LoadTracker()
    tracker.reported(LoadReport(**report))
    tracker.sent(requests(*sent))
    assert tracker.load() == load(*expected)


def test_what_a_report_knows_is_on_its_way_no_more() -> None:
    tracker = LoadTracker()
    tracker.sent(requests(3, 4))
    tracker.sent(requests(5))
    assert tracker.load() == load(0, 3, 12)
    tracker.reported(LoadReport(running=1, waiting=1, waiting_tokens=4, received=2))
    assert tracker.load() == load(1, 2, 9)
    tracker.reported(LoadReport(running=1, waiting=2, waiting_tokens=9, received=3))
    assert tracker.load() == load(1, 2, 9)


def test_each_client_hears_of_its_own_requests() -> None:
    reports = LoadReports(report=LoadReport(running=3), received={1: 5})
    assert reports.of(1) == LoadReport(running=3, received=5)
    assert reports.of(2) == LoadReport(running=3)


def steps(engine: FakeEngine) -> Iterator[LoadReport]:
    while engine.loop.has_work():
        engine.step()
        yield engine.loop.load()


@pytest.mark.parametrize("options", [{}, {"num_blocks": 6}, {"max_num_seqs": 2}, {"max_in_flight": 2}, {"long_prefill_token_threshold": 8}])
def test_an_engine_counts_what_runs_and_what_waits(options: dict[str, Any]) -> None:
    engine = fake_engine(**options)
    for index in range(8):
        engine.add(str(index), [5] * (20 + index), max_tokens=12)
    engine.add("leader", [5] * 40, max_tokens=3)
    engine.add("follower", [5] * 40, max_tokens=3, leader="leader")
    assert engine.loop.load().waiting == 10
    assert engine.loop.load().waiting_tokens == sum(range(20, 28)) + 80
    for report in steps(engine):
        stats = engine.loop.stats()
        assert (report.running, report.waiting) == (stats.running, stats.waiting)
        assert report.free_places + report.running <= options.get("max_num_seqs", 4)
        assert (report.waiting_tokens > 0) == (report.waiting > 0)
    assert report == LoadReport(free_places=options.get("max_num_seqs", 4))


def test_no_place_is_free_where_memory_makes_requests_wait() -> None:
    engine = fake_engine(num_blocks=4)
    for index in range(3):
        engine.add(str(index), [5 + index] * 30, max_tokens=4)
    engine.step(3)
    report = engine.loop.load()
    assert report.waiting > 0
    assert report.free_places == 0
