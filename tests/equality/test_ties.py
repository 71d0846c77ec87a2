import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.equality.ties import TIE_GAP, Agreement, Continuation, Job, compare, first_difference

PROMPT = (7, 8)


def reference_of(*steps: tuple[int, int, float]) -> Continuation:
    tokens, second, gaps = zip(*steps, strict=True)
    return Continuation(token_ids=tokens, runner_up_ids=second, gaps=gaps)


FOUR = reference_of((10, 11, 2.0), (20, 21, TIE_GAP), (30, 31, 0.5), (40, 41, 0.0))


def run_one(reference: Continuation, *answers: Sequence[int]) -> tuple[Agreement, list[Job]]:
    """Compare one prompt with an engine that gives these answers, one a round."""
    asked: list[Job] = []
    left = list(answers)

    def generate(jobs: list[Job]) -> list[Sequence[int]]:
        asked.extend(jobs)
        return [left.pop(0) for _ in jobs]

    agreement = compare({"one": PROMPT}, {"one": reference}, generate)
    assert not left, "fewer requests were made than expected"
    return agreement, asked


def test_equal_tokens_have_no_difference() -> None:
    assert first_difference("one", FOUR, [10, 20, 30, 40]) is None


def test_the_runner_up_within_the_gap_is_a_tie() -> None:
    difference = first_difference("one", FOUR, [10, 21, 99, 99])
    assert difference is not None
    assert (difference.position, difference.expected, difference.actual, difference.is_tie) == (1, 20, 21, True)


def test_the_runner_up_beyond_the_gap_is_a_fault() -> None:
    difference = first_difference("one", FOUR, [10, 20, 31, 40])
    assert difference is not None
    assert not difference.is_tie
    assert "DIFFERENT at token 2: expected 30, got 31, gap 0.500000" in str(difference)


def test_a_third_token_is_a_fault_however_small_the_gap() -> None:
    difference = first_difference("one", FOUR, [10, 22, 30, 40])
    assert difference is not None
    assert math.isinf(difference.gap)


@pytest.mark.parametrize(("actual", "expected_pair"), [([10, 20, 30], (40, None)), ([10, 20, 30, 40, 50], (None, 50))])
def test_an_output_of_another_length_is_a_fault(actual: list[int], expected_pair: tuple[int | None, int | None]) -> None:
    difference = first_difference("one", FOUR, actual)
    assert difference is not None
    assert not difference.is_tie
    assert (difference.expected, difference.actual) == expected_pair


def test_after_a_tie_the_rest_is_asked_for_behind_the_references_token() -> None:
    agreement, asked = run_one(FOUR, [10, 21, 5, 6], [30, 40])
    assert asked == [
        Job(prompt="one", token_ids=PROMPT, num_tokens=4),
        Job(prompt="one", token_ids=(*PROMPT, 10, 20), num_tokens=2),
    ]
    assert agreement.failures(1) == []
    assert agreement.num_equal == 0


def test_a_fault_behind_a_tie_is_found() -> None:
    agreement, _ = run_one(FOUR, [10, 21, 30, 40], [31, 40])
    assert [(fault.position, fault.actual) for fault in agreement.faults] == [(2, 31)]
    assert len(agreement.ties) == 1
    assert agreement.failures()


def test_a_tie_at_the_last_token_ends_the_comparison() -> None:
    agreement, asked = run_one(FOUR, [10, 20, 30, 41])
    assert len(asked) == 1
    assert len(agreement.ties) == 1


def test_two_ties_of_one_prompt_count_as_one_prompt() -> None:
    agreement, _ = run_one(FOUR, [10, 21, 0, 0], [30, 41])
    assert len(agreement.ties) == 2
    assert agreement.failures(1) == []
    assert agreement.failures(0) == ["1 prompts have ties, more than 0: one"]


def test_only_prompts_that_tied_run_again() -> None:
    rounds: list[list[str]] = []

    def generate(jobs: list[Job]) -> list[Sequence[int]]:
        rounds.append([job.prompt for job in jobs])
        if len(rounds) == 1:
            return [FOUR.token_ids, (10, 21, 0, 0), (10, 20, 31, 40)]
        return [FOUR.token_ids[2:] for _ in jobs]

    agreement = compare(dict.fromkeys("abc", PROMPT), dict.fromkeys("abc", FOUR), generate)
    assert rounds == [["a", "b", "c"], ["b"]]
    assert (agreement.num_equal, len(agreement.ties), len(agreement.faults)) == (1, 1, 1)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19), st.sampled_from([0.0, TIE_GAP, 2 * TIE_GAP, 5.0])), min_size=1, max_size=12),
    st.data(),
)
def test_a_run_that_takes_runners_up_passes_exactly_where_each_was_a_tie(steps: list[tuple[int, int, float]], data: st.DataObject) -> None:
    reference = reference_of(*steps)
    swapped = data.draw(st.sets(st.integers(0, len(steps) - 1)))

    def generate(jobs: list[Job]) -> list[Sequence[int]]:
        (job,) = jobs
        start = len(job.token_ids) - len(PROMPT)
        assert job.token_ids[len(PROMPT) :] == reference.token_ids[:start]
        return [[reference.runner_up_ids[i] if i in swapped else reference.token_ids[i] for i in range(start, len(steps))]]

    agreement = compare({"one": PROMPT}, {"one": reference}, generate)
    beyond = sorted(position for position in swapped if steps[position][2] > TIE_GAP)
    assert [fault.position for fault in agreement.faults] == beyond[:1]
    assert [tie.position for tie in agreement.ties] == sorted(p for p in swapped if not beyond or p < beyond[0])
