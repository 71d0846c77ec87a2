"""Logging of the command line: everything goes to standard error, because standard output belongs to answers.

The library itself sets nothing up: whoever embeds it decides what becomes of its messages.
"""

import logging
import sys

LEVELS = ("debug", "info", "warning", "error")
_NAME_PREFIX = "octavo"


class _StandardErrorHandler(logging.Handler):
    """Writes to what `sys.stderr` is at the moment, also where somebody replaces it later."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - reported the way the handlers of the standard library do; a message never stops its sender
            self.handleError(record)


def configure_logging(level: str = "info") -> None:
    """Send messages of Octavo, its packages and its plugins from `level` on to standard error, and of other libraries warnings.

    Calling it again replaces the earlier call.

    Args:
        level: one of `LEVELS`.
    """
    assert level in LEVELS, f"unknown level {level!r}"
    threshold = logging.getLevelNamesMapping()[level.upper()]
    handler = _StandardErrorHandler()
    handler.addFilter(lambda record: record.name.startswith(_NAME_PREFIX) or record.levelno >= logging.WARNING)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s" if level == "debug" else "%(levelname)s %(message)s"))
    root = logging.getLogger()
    for old in [known for known in root.handlers if isinstance(known, _StandardErrorHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(threshold)
