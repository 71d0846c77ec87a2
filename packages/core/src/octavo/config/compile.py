"""Whether the model is compiled, and how much of a step is replayed from graphs."""

from dataclasses import dataclass
from pathlib import Path

LEVELS = (0, 1, 2, 3)
"""0: as written; 1: compiled; 2: and whole decode steps are graphs; 3: and the compiler searches for the fastest kernels."""


@dataclass(frozen=True, kw_only=True)
class CompileConfig:
    """How the pieces of a model run.

    Attributes:
        level: one of `LEVELS`.
        enforce_eager: as written, and without graphs on any device.
        in_background: serve as written until compiling is done.
        artifacts: file with what was compiled before, of `octavo compile`.
        step_times_key: under which a runner keeps what it measures of steps as written and compiled; None: it measures nothing.
        graph_backend: "auto": graphs on a GPU, none on a CPU; "checking": a CPU pads and replays as a GPU would, and work that could not
            be replayed there is an error. For tests.
    """

    level: int = 0
    enforce_eager: bool = False
    in_background: bool = False
    artifacts: Path | None = None
    step_times_key: str | None = None
    graph_backend: str = "auto"

    @property
    def compiles(self) -> bool:
        """Whether pieces are compiled."""
        return self.level > 0 and not self.enforce_eager

    @property
    def graphs(self) -> tuple[str, ...]:
        """The modes of graphs that are wanted, by name: "piecewise" and "full"."""
        if self.enforce_eager:
            return ()
        return ("piecewise",) if self.level == 1 else ("piecewise", "full")


EAGER = CompileConfig(enforce_eager=True)
"""Nothing is compiled, on any device."""
