"""When two greedy runs count as the same.

Float addition is not associative, and matrix products of different shapes add in different orders: two right engines can
differ where two logits are almost equal, and every token after that differs too. So a first difference is a tie where the
reference's gap between the two tokens is at most `TIE_GAP`, and the run then goes on from the reference's token.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

TIE_GAP = 1e-3
MAX_PROMPTS_WITH_TIES = 2
"""Of 32 prompts; more would be a fault that hides behind ties."""


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """What the reference says of one prompt, a value for each step.

    Attributes:
        token_ids: likeliest tokens.
        runner_up_ids: second ones.
        gaps: logit of the first minus logit of the second.
    """

    token_ids: tuple[int, ...]
    runner_up_ids: tuple[int, ...]
    gaps: tuple[float, ...]

    def first(self, num_tokens: int) -> "Continuation":
        """Its beginning."""
        return Continuation(
            token_ids=self.token_ids[:num_tokens], runner_up_ids=self.runner_up_ids[:num_tokens], gaps=self.gaps[:num_tokens]
        )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Where a run leaves the reference.

    Attributes:
        prompt: name.
        position: output token, counted from 0.
        expected, actual: the two tokens; None where one side had ended.
        gap: between their logits in the reference; infinite where the run's token is neither of its best two.
    """

    prompt: str
    position: int
    expected: int | None
    actual: int | None
    gap: float

    @property
    def is_tie(self) -> bool:
        return self.gap <= TIE_GAP

    def __str__(self) -> str:
        kind = "tie" if self.is_tie else "DIFFERENT"
        return f"{self.prompt}: {kind} at token {self.position}: expected {self.expected}, got {self.actual}, gap {self.gap:.6f}"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request that the comparison needs: continue `token_ids` by exactly `num_tokens`."""

    prompt: str
    token_ids: tuple[int, ...]
    num_tokens: int


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What came of comparing all prompts."""

    num_prompts: int
    ties: tuple[Difference, ...]
    faults: tuple[Difference, ...]

    @property
    def num_equal(self) -> int:
        """Prompts without any difference."""
        return self.num_prompts - len({difference.prompt for difference in self.ties + self.faults})

    def failures(self, max_prompts_with_ties: int = MAX_PROMPTS_WITH_TIES) -> list[str]:
        """Why the two runs do not count as the same; empty where they do."""
        found = [str(fault) for fault in self.faults]
        tied = sorted({tie.prompt for tie in self.ties})
        if len(tied) > max_prompts_with_ties:
            found.append(f"{len(tied)} prompts have ties, more than {max_prompts_with_ties}: {', '.join(tied)}")
        return found


def first_difference(prompt: str, reference: Continuation, actual: Sequence[int], start: int = 0) -> Difference | None:
    """Compare the tokens that a run gave from output position `start` on; both sides must end together."""
    expected = reference.token_ids[start:]
    for offset in range(max(len(expected), len(actual))):
        wanted = expected[offset] if offset < len(expected) else None
        given = actual[offset] if offset < len(actual) else None
        if wanted == given:
            continue
        position = start + offset
        close = wanted is not None and given == reference.runner_up_ids[position]
        return Difference(
            prompt=prompt, position=position, expected=wanted, actual=given, gap=reference.gaps[position] if close else math.inf
        )
    return None


def compare(
    prompts: Mapping[str, Sequence[int]],
    references: Mapping[str, Continuation],
    generate: Callable[[list[Job]], list[Sequence[int]]],
) -> Agreement:
    """Run all prompts, and after a tie the rest of that prompt again, given the reference's tokens up to and including the tie.

    Args:
        prompts: name to token ids.
        references: name to what is expected; its length is how many tokens are asked for.
        generate: runs jobs and returns their tokens, in order.
    """
    ties: list[Difference] = []
    faults: list[Difference] = []
    starts = dict.fromkeys(prompts, 0)
    while starts:
        jobs = [_job(name, prompts[name], references[name], start) for name, start in starts.items()]
        following: dict[str, int] = {}
        for job, actual in zip(jobs, generate(jobs), strict=True):
            reference = references[job.prompt]
            difference = first_difference(job.prompt, reference, actual, starts[job.prompt])
            if difference is None:
                continue
            (ties if difference.is_tie else faults).append(difference)
            if difference.is_tie and difference.position + 1 < len(reference.token_ids):
                following[job.prompt] = difference.position + 1
        starts = following
    return Agreement(num_prompts=len(prompts), ties=tuple(ties), faults=tuple(faults))


def _job(prompt: str, token_ids: Sequence[int], reference: Continuation, start: int) -> Job:
    forced = (*token_ids, *reference.token_ids[:start])
    return Job(prompt=prompt, token_ids=forced, num_tokens=len(reference.token_ids) - start)
