import time

import pytest

from octavo.profile.parts import Part
from octavo.profile.spans import Detail, SpanRecorder


class Works:
    """Something to clock, on a clock that moves when it works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def outer(self) -> str:
        self.now += 1
        self.inner()
        return "done"

    def inner(self) -> None:
        self.now += 2

    def fails(self) -> None:
        self.now += 1
        raise LookupError("no")


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Works:
    return Works(monkeypatch)


def test_time_belongs_to_the_outermost_part_and_steps_and_forwards_hide_none(works: Works) -> None:
    spans = SpanRecorder()
    with spans.clock(works, "outer", Part.FORWARD), spans.clock(works, "inner", Part.LINEAR):
        assert works.outer() == "done"
    assert spans.take_totals() == {Part.FORWARD: 3.0, Part.LINEAR: 2.0}
    with spans.clock(works, "outer", Part.SAMPLE), spans.clock(works, "inner", Part.LINEAR):
        works.outer()
    assert spans.take_totals() == {Part.SAMPLE: 3.0}
    assert [(span.name, span.start, span.end) for span in spans.spans[:2]] == [("inner", 1.0, 3.0), ("outer", 0.0, 3.0)]


def test_library_time_is_counted_once_and_within_any_part(works: Works) -> None:
    spans = SpanRecorder()
    with spans.clock(works, "outer", Part.SAMPLE), spans.clock(works, "inner", Part.LINEAR, is_library=True):
        works.outer()
    assert spans.library_s == 2.0
    with spans.clock(works, "outer", Part.GRAPHS, is_library=True), spans.clock(works, "inner", Part.LINEAR, is_library=True):
        works.outer()
    assert spans.library_s == 5.0
    spans.add("op", Part.LINEAR, 10.0, 10.5)
    assert spans.library_s == 5.5
    assert not spans.is_in_library


def test_only_one_object_is_clocked_and_not_longer_than_asked(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    other, spans = Works(monkeypatch), SpanRecorder()
    with spans.clock(works, "inner", Part.LINEAR):
        other.inner()
    works.inner()
    assert spans.spans == []
    assert "inner" not in vars(works)


def test_a_failure_is_clocked_and_passed_on(works: Works) -> None:
    spans = SpanRecorder()
    with spans.clock(works, "fails", Part.LINEAR), pytest.raises(LookupError):
        works.fails()
    assert spans.totals[Part.LINEAR] > 0
    assert "fails" not in vars(works)


def test_what_follows_sees_the_result_and_is_not_clocked(works: Works) -> None:
    spans, seen = SpanRecorder(), []

    def follow(result: object) -> None:
        works.now += 7
        seen.append(result)

    with spans.clock(works, "outer", Part.UPDATE, then=follow):
        works.outer()
    assert (seen, spans.totals) == (["done"], {Part.UPDATE: 3.0})


def test_no_span_is_kept_where_calls_alone_are_counted() -> None:
    spans = SpanRecorder(Detail.CALLS)
    spans.add("op", Part.LINEAR, 0.0, 1.0)
    assert (spans.spans, spans.totals) == ([], {Part.LINEAR: 1.0})
