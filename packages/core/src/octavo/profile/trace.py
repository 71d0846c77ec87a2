"""Spans as a file that chrome://tracing and Perfetto open.

The format: Google, "Trace Event Format", complete events ("X") with microseconds.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from octavo.errors import ConfigurationError
from octavo.profile.spans import Span

_PROCESS = {"pid": 1, "tid": 1}


def write_trace(file: Path, spans: Sequence[Span], *, name: str) -> None:
    """Write spans of one thread, which is shown under a name. Raises `ConfigurationError` where the file cannot be written."""
    origin = min((span.start for span in spans), default=0.0)
    events = [{"name": "process_name", "ph": "M", **_PROCESS, "args": {"name": name}}]
    events += [_event(span, origin) for span in sorted(spans, key=lambda span: (span.start, -span.end))]
    try:
        file.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"the trace cannot be written to {str(file)!r}: {error.strerror}") from error


def _event(span: Span, origin: float) -> dict[str, object]:
    start, length = (span.start - origin) * 1e6, (span.end - span.start) * 1e6
    return {"name": span.name, "cat": span.part.value, "ph": "X", "ts": round(start, 3), "dur": round(length, 3), **_PROCESS}
