"""Ids and enumerations that several rooms share."""

from enum import StrEnum


class FinishReason(StrEnum):
    """Why a request ended, in OpenAI's words where it has one."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


NULL_BLOCK = 0
"""Block id that is never handed out: padding of block tables, and positions outside a window."""
