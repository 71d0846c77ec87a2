"""Logging of the command line: everything goes to standard error, because standard output belongs to answers.

The library itself sets nothing up: whoever embeds it decides what becomes of its messages.
"""

import logging
import sys

from octavo.log_formats import PLAIN, make_formatter

LEVELS = ("debug", "info", "warning", "error")
_NAME_PREFIX = "octavo"


class _StandardErrorHandler(logging.Handler):
    """Writes to what `sys.stderr` is at the moment, also where somebody replaces it later."""

    def __init__(self, log_format: str) -> None:
        super().__init__()
        self.log_format = log_format

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - reported the way the handlers of the standard library do; a message never stops its sender
            self.handleError(record)


def configure_logging(level: str = "info", *, log_format: str = PLAIN) -> None:
    """Send messages of Octavo, its packages and its plugins from `level` on to standard error, and of other libraries warnings.

    Calling it again replaces the earlier call.

    Args:
        level: one of `LEVELS`.
        log_format: one of `octavo.log_formats.FORMATS`.
    """
    assert level in LEVELS, f"unknown level {level!r}"
    threshold = logging.getLevelNamesMapping()[level.upper()]
    handler = _StandardErrorHandler(log_format)
    handler.addFilter(lambda record: record.name.startswith(_NAME_PREFIX) or record.levelno >= logging.WARNING)
    handler.setFormatter(make_formatter(log_format, level=level))
    root = logging.getLogger()
    for old in [known for known in root.handlers if isinstance(known, _StandardErrorHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(threshold)


def current_log_format() -> str:
    """The format in which this process logs, as `configure_logging` takes it."""
    return next((handler.log_format for handler in logging.getLogger().handlers if isinstance(handler, _StandardErrorHandler)), PLAIN)
