import json
from pathlib import Path

import pytest

from octavo.errors import ConfigurationError
from octavo.profile.parts import Part
from octavo.profile.spans import Span
from octavo.profile.trace import write_trace


def test_a_trace_holds_complete_events_in_microseconds_outer_ones_first(tmp_path: Path) -> None:
    spans = [Span("op", Part.LINEAR, 100.25, 100.5), Span("forward", Part.FORWARD, 100.0, 101.0)]
    write_trace(tmp_path / "trace.json", spans, name="a run")
    trace = json.loads((tmp_path / "trace.json").read_text())
    process, *events = trace["traceEvents"]
    assert (process["ph"], process["args"]) == ("M", {"name": "a run"})
    assert [(event["name"], event["cat"], event["ph"], event["ts"], event["dur"]) for event in events] == [
        ("forward", "forward", "X", 0.0, 1e6),
        ("op", "linear", "X", 0.25e6, 0.25e6),
    ]
    assert all((event["pid"], event["tid"]) == (1, 1) for event in events)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be written to .*nowhere"):
        write_trace(tmp_path / "nowhere" / "trace.json", [], name="a run")
