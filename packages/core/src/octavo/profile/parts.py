"""The parts that a step's time is told by."""

from enum import StrEnum


class Part(StrEnum):
    """What a span of time belongs to; the value is what readers see."""

    STEP = "step"
    SCHEDULE = "schedule"
    PREPARE = "prepare"
    FORWARD = "forward"
    LINEAR = "linear"
    ATTENTION = "attention"
    ROW_OPS = "norm, rotary, activation"
    OTHER_OPS = "other ops"
    COMPILED = "compiled pieces"
    GRAPHS = "graphs"
    HEAD = "head"
    SAMPLE = "sample"
    UPDATE = "update"
    BETWEEN = "Python between"


ENCLOSING = frozenset({Part.STEP, Part.FORWARD})
"""Shown in a trace, while their time is told by what is inside."""

FORWARD_PARTS = (Part.LINEAR, Part.ATTENTION, Part.ROW_OPS, Part.OTHER_OPS, Part.COMPILED, Part.GRAPHS, Part.HEAD)
ALWAYS_SHOWN = frozenset(Part) - {Part.COMPILED, Part.GRAPHS, Part.OTHER_OPS, *ENCLOSING}
