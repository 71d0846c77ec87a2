"""Put an engine through a run and compare what it says with the reference."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from octavo import LLM, RequestOutput, SamplingParams
from tests.equality.recorded import Recorded
from tests.equality.settings import Run
from tests.equality.ties import Agreement, Job, compare


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a run.

    Attributes:
        agreement: with the reference.
        preemptions: requests that gave way during the run.
        cached: by prompt, its tokens that came from the prefix cache.
    """

    agreement: Agreement
    preemptions: int
    cached: dict[str, int]


def play(llm: LLM, recorded: Sequence[Recorded], run: Run) -> Outcome:
    """All prompts once, and again what a tie leaves over."""
    cached: dict[str, int] = {}
    before = llm.stats().counters.preemptions

    def generate(jobs: list[Job]) -> list[Sequence[int]]:
        outputs = _generate(llm, jobs, run)
        for job, output in zip(jobs, outputs, strict=True):
            assert tuple(output.prompt_token_ids) == job.token_ids
            cached.setdefault(job.prompt, output.num_cached_tokens)
        return [output.outputs[0].token_ids for output in outputs]

    agreement = compare({one.name: one.token_ids for one in recorded}, {one.name: one.continuation for one in recorded}, generate)
    return Outcome(agreement=agreement, preemptions=llm.stats().counters.preemptions - before, cached=cached)


def _generate(llm: LLM, jobs: list[Job], run: Run) -> list[RequestOutput]:
    prompts = [list(job.token_ids) for job in jobs]
    params = [SamplingParams(temperature=0, max_tokens=job.num_tokens, ignore_eos=True, detokenize=False) for job in jobs]
    draw = random.Random(len(jobs))
    priorities = [draw.randrange(4) if run.priorities else 0 for _ in jobs]
    if run.alone:
        return [llm.generate(prompt, one, use_tqdm=False)[0] for prompt, one in zip(prompts, params, strict=True)]
    return llm.generate(prompts, params, use_tqdm=False, priority=priorities)


def shared_tokens(recorded: Sequence[Recorded], block_size: int) -> dict[str, int]:
    """By prompt, the tokens in full blocks that an earlier prompt begins with too; its last token is always computed."""
    found: dict[str, int] = {}
    for index, one in enumerate(recorded):
        longest = max((_common(one.token_ids, earlier.token_ids) for earlier in recorded[:index]), default=0)
        found[one.name] = full_blocks(min(longest, len(one.token_ids) - 1), block_size)
    return found


def full_blocks(num_tokens: int, block_size: int) -> int:
    """Tokens in full blocks."""
    return num_tokens // block_size * block_size


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    length = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        length += 1
    return length
