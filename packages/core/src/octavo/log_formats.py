"""What a line of the log looks like."""

import json
import logging
import time
from typing import Any

PLAIN, TEXT, JSON = "plain", "text", "json"
FORMATS = (PLAIN, TEXT, JSON)
REQUEST_ID = "request_id"
"""Attribute of a record that is about one request."""


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO octavo_server.serve: message [request id]`."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_timestamp(record)} {record.levelname} {record.name}: {record.getMessage()}"
        request_id = getattr(record, REQUEST_ID, "")
        trace = _trace(self, record)
        return "\n".join([f"{line} [{request_id}]" if request_id else line, *([trace] if trace else [])])


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, process, message and, where they are, request_id and exception."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if request_id := getattr(record, REQUEST_ID, ""):
            fields["request_id"] = request_id
        if trace := _trace(self, record):
            fields["exception"] = trace
        return json.dumps(fields, ensure_ascii=False)


def make_formatter(log_format: str, *, level: str) -> logging.Formatter:
    """The formatter of one of `FORMATS`; plain lines name their logger only at level "debug"."""
    assert log_format in FORMATS, f"unknown format {log_format!r}"
    if log_format == PLAIN:
        return logging.Formatter("%(levelname)s %(name)s: %(message)s" if level == "debug" else "%(levelname)s %(message)s")
    return JsonFormatter() if log_format == JSON else TextFormatter()


def _timestamp(record: logging.LogRecord) -> str:
    """UTC, to the millisecond."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
