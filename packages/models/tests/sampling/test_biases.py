"""Allowed tokens and bad words, from parameters to the edited logits."""

from typing import Any

import numpy as np
import pytest
import torch

from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest
from octavo_models.sampling.batch import SamplingState
from octavo_models.sampling.edits import apply_edits

VOCAB = 30


def request(params: SamplingParams, *, output: list[int] | None = None, bad: list[list[int]] | None = None) -> AddedRequest:
    tokens = [4, 5, *(output or [])]
    return AddedRequest(
        request_id="r",
        epoch=0,
        token_ids=tokens,
        num_prompt_tokens=2,
        num_computed_tokens=0,
        block_ids=[[]],
        params=params,
        ending_token_ids=[2],
        seed=0,
        bad_sequences=bad or [],
    )


def edited(state: SamplingState, slots: list[int], *, index: int = 0, logits: torch.Tensor | None = None) -> torch.Tensor:
    """Logits of the rows of these slots after edits; they count up from 0 in each row at first."""
    rows = torch.arange(float(VOCAB)).repeat(len(slots), 1) if logits is None else logits
    apply_edits(rows, state.batch(np.array(slots), np.full(len(slots), index)))
    return rows


def may_come(row: torch.Tensor) -> set[int]:
    return set(row.isfinite().nonzero().flatten().tolist())


def new_state() -> SamplingState:
    return SamplingState(4, VOCAB, torch.device("cpu"))


@pytest.mark.parametrize("more", [{}, {"logit_bias": {7: 5.0, 9: 1.0}}, {"repetition_penalty": 2.0}])
def test_only_allowed_tokens_may_come_and_neighbours_have_all(more: dict[str, Any]) -> None:
    state = new_state()
    for slot, allowed in enumerate([None, [7, 3, 7], None, [0]]):
        state.add(slot, request(SamplingParams(temperature=0, allowed_token_ids=allowed, **more)))
    rows = edited(state, [0, 1, 2, 3])
    assert [may_come(row) for row in rows] == [set(range(VOCAB)), {3, 7}, set(range(VOCAB)), {0}]
    assert rows[1, 7] == 7 + more.get("logit_bias", {}).get(7, 0)
    state.remove(1)
    state.move(3, 1)
    assert may_come(edited(state, [1])[0]) == {0}


def test_allowed_tokens_and_min_tokens_hold_together() -> None:
    state = new_state()
    state.add(0, request(SamplingParams(allowed_token_ids=[2, 6], min_tokens=2)))
    assert [may_come(edited(state, [0], index=index)[0]) for index in (1, 2)] == [{6}, {2, 6}]


def test_a_bad_word_is_not_completed_wherever_the_request_lies() -> None:
    state, bad = new_state(), [[8], [10, 11], [10, 12], [10, 11, 13]]
    state.add(0, request(SamplingParams()))
    state.add(1, request(SamplingParams(), bad=bad))
    everything = set(range(VOCAB))

    def note(token: int, slot: int) -> set[int]:
        state.record(np.array([0, slot]), np.array([1, token]))
        rows = edited(state, [0, slot])
        assert may_come(rows[0]) == everything
        return everything - may_come(rows[1])

    assert everything - may_come(edited(state, [1])[0]) == {8}
    assert note(10, 1) == {8, 11, 12}
    state.move(1, 2)
    assert note(11, 2) == {8, 13}
    assert note(9, 2) == {8}
    state.remove(2)
    state.add(2, request(SamplingParams(), output=[9, 10], bad=bad))
    assert everything - may_come(edited(state, [2])[0]) == {8, 11, 12}


def test_the_prompt_begins_no_bad_word() -> None:
    state = new_state()
    state.add(0, request(SamplingParams(), bad=[[5, 6]]))
    assert may_come(edited(state, [0])[0]) == set(range(VOCAB))


def test_sequences_that_the_model_cannot_write_are_left_out() -> None:
    state = new_state()
    state.add(0, request(SamplingParams(), bad=[[VOCAB], [3, VOCAB + 7], [6]]))
    assert set(range(VOCAB)) - may_come(edited(state, [0])[0]) == {6}


def test_a_row_of_nan_stays_one() -> None:
    state = new_state()
    state.add(0, request(SamplingParams(allowed_token_ids=[4])))
    assert edited(state, [0], logits=torch.full((1, VOCAB), torch.nan))[0, 4].isnan()
