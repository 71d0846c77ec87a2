"""Standard streams that somebody closed before the program started (`octavo … >&-`)."""

import os
import sys

STANDARD_INPUT, STANDARD_OUTPUT, STANDARD_ERROR = 0, 1, 2


def open_missing_streams() -> None:
    """Give each standard stream that is closed a place, so that no file that is opened later takes its number.

    What is read from standard input is empty and messages to standard error are lost. Answers are not lost in silence: writing to
    standard output fails, as it does for other programs.
    """
    if sys.stdin is None:
        sys.stdin = open(_take(STANDARD_INPUT, os.O_RDONLY), encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(_take(STANDARD_OUTPUT, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(_take(STANDARD_ERROR, os.O_WRONLY), "w", encoding="utf-8")  # noqa: SIM115


def _take(number: int, flags: int) -> int:
    """Open the null device under a number that is free, as the stream is closed."""
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return number
