"""Steps of a kind, and where their time went on average."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from octavo.profile.parts import ALWAYS_SHOWN, ENCLOSING, FORWARD_PARTS, Part
from octavo.profile.spans import Detail, SpanRecorder
from octavo.scheduler.plan import StepPlan


class StepKind(StrEnum):
    """Steps in which every request runs one token behind its prompt, and those that run prompts."""

    DECODE = "decode"
    PREFILL = "prefill"


@dataclass
class StepTotals:
    """Seconds of some steps together, by part; those of `Part.STEP` are all of them."""

    num_steps: int = 0
    seconds: dict[Part, float] = field(default_factory=dict)

    def add(self, seconds: dict[Part, float]) -> None:
        """Count one step more."""
        self.num_steps += 1
        for part, value in seconds.items():
            self.seconds[part] = self.seconds.get(part, 0.0) + value

    def means(self) -> dict[Part, float]:
        """Seconds of a step by part, in the order of the step, with what lies between them; they add up to that of `Part.STEP`."""
        means = {part: self.seconds[part] / self.num_steps for part in Part if part in self.seconds}
        told = sum(value for part, value in means.items() if part not in ENCLOSING)
        return {**means, Part.BETWEEN: means[Part.STEP] - told}


class StepProfile:
    """What the clocks around an engine's steps say.

    Args:
        detail: how finely.

    Attributes:
        spans: of everything that is clocked.
        totals: of the steps that ran tokens, by kind.
    """

    def __init__(self, detail: Detail = Detail.OPS) -> None:
        self.spans = SpanRecorder(detail)
        self.totals: dict[StepKind, StepTotals] = {}
        self._kind: StepKind | None = None

    @contextmanager
    def clock(self, loop: object, step: str, scheduler: object) -> Iterator[None]:
        """Clock the method of a loop that makes a step, and what its scheduler does in it."""
        spans = self.spans
        with (
            spans.clock(loop, step, Part.STEP, then=self._end_step),
            spans.clock(scheduler, "schedule", Part.SCHEDULE, then=self._note_plan),
            spans.clock(scheduler, "update", Part.UPDATE),
        ):
            yield

    def as_dict(self) -> dict[str, dict[str, object]]:
        """For JSON: by kind the number of steps, and seconds of a step by part."""
        return {
            kind.value: {"num_steps": totals.num_steps, "mean_s": {part.value: value for part, value in totals.means().items()}}
            for kind, totals in self.totals.items()
        }

    def table(self) -> list[str]:
        """Lines for readers: milliseconds of a step and its share, by kind."""
        kinds = [kind for kind in StepKind if kind in self.totals]
        means = [self.totals[kind].means() for kind in kinds]
        header = f"{'milliseconds a step':36}" + "".join(f"{f'{kind} ({self.totals[kind].num_steps:,} steps)':>26}" for kind in kinds)
        rows = [
            f"{f'forward: {part}' if part in FORWARD_PARTS else part:36}" + "".join(_cell(mean, part) for mean in means)
            for part in (*(part for part in Part if part not in ENCLOSING), Part.STEP)
            if part in ALWAYS_SHOWN or any(part in mean for mean in means)
        ]
        return [header, *rows]

    def _note_plan(self, plan: StepPlan | None) -> None:
        """The step that runs next."""
        if plan is not None and plan.num_tokens:
            runs_prompts = bool(plan.added) or any(count > 1 for count in plan.num_tokens.values())
            self._kind = StepKind.PREFILL if runs_prompts else StepKind.DECODE

    def _end_step(self, _outputs: object) -> None:
        """All that was clocked since the last step belongs to the one that ends."""
        seconds = self.spans.take_totals()
        if self._kind is not None:
            self.totals.setdefault(self._kind, StepTotals()).add(seconds)
            self._kind = None


def _cell(means: dict[Part, float], part: Part) -> str:
    seconds = means.get(part, 0.0)
    return f"{seconds * 1e3:18.3f}{seconds / means[Part.STEP]:8.1%}"
