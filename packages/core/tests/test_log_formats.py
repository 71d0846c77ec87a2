import json
import logging
import sys

import pytest

from octavo.log_formats import JSON, PLAIN, TEXT, make_formatter


def record(message: str = "loaded %d", *arguments: object, **attributes: object) -> logging.LogRecord:
    made = logging.LogRecord("octavo.engine", logging.WARNING, __file__, 1, message, arguments or (3,), None)
    made.created, made.msecs = 1_700_000_000.25, 250.0
    vars(made).update(attributes)
    return made


def failed() -> logging.LogRecord:
    try:
        raise ValueError("bad")
    except ValueError:
        return record(exc_info=sys.exc_info())


@pytest.mark.parametrize(
    ("log_format", "level", "line"),
    [
        (PLAIN, "info", "WARNING loaded 3"),
        (PLAIN, "debug", "WARNING octavo.engine: loaded 3"),
        (TEXT, "info", "2023-11-14T22:13:20.250Z WARNING octavo.engine: loaded 3"),
    ],
)
def test_lines_for_people(log_format: str, level: str, line: str) -> None:
    assert make_formatter(log_format, level=level).format(record()) == line


def test_lines_for_programs() -> None:
    line = make_formatter(JSON, level="info").format(record("two\nlines %s", "ü", request_id="r-1"))
    assert "\n" not in line
    fields = json.loads(line)
    assert fields.pop("process") > 0
    assert fields == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "octavo.engine",
        "message": "two\nlines ü",
        "request_id": "r-1",
    }


def test_a_request_is_named_and_an_exception_follows() -> None:
    assert make_formatter(TEXT, level="info").format(record(request_id="r-1")).endswith("loaded 3 [r-1]")
    first, *trace = make_formatter(TEXT, level="info").format(failed()).splitlines()
    assert first.endswith("loaded 3")
    assert trace[-1] == "ValueError: bad"
    assert json.loads(make_formatter(JSON, level="info").format(failed()))["exception"].endswith("ValueError: bad")
