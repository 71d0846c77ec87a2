"""Who may wait."""

from typing import Any

import pytest

from octavo.errors import EngineDeadError
from octavo_server.admission import admit
from octavo_server.errors import ApiError


@pytest.mark.parametrize(("waiting", "more", "fits"), [(0, 4, True), (0, 5, False), (3, 1, True), (4, 1, False), (4, 0, True)])
def test_the_queue_holds_as_many_as_were_allowed(make_state: Any, waiting: int, more: int, fits: bool) -> None:
    state = make_state(max_queued_requests=4)
    state.llm.running, state.llm.waiting = state.llm.info.max_num_seqs, waiting
    if fits:
        admit(state, more, 10)
        return
    with pytest.raises(ApiError, match="--max-queued-requests 4") as refused:
        admit(state, more, 10)
    assert (refused.value.status, refused.value.code) == (503, "queue_full")
    assert int(refused.value.headers["Retry-After"]) > 0


def test_who_finds_room_does_not_wait(make_state: Any) -> None:
    state = make_state(max_queued_requests=2)
    state.llm.running = state.llm.info.max_num_seqs - 1
    admit(state, 3, 10)
    with pytest.raises(ApiError):
        admit(state, 4, 10)


def test_a_prompt_of_any_length_may_wait_where_nothing_else_does(make_state: Any) -> None:
    state = make_state(max_queued_tokens=100)
    admit(state, 1, 1000)
    state.llm.waiting, state.llm.waiting_tokens = 1, 60
    admit(state, 1, 40)
    with pytest.raises(ApiError, match="--max-queued-tokens 100"):
        admit(state, 1, 41)


def test_without_limits_everybody_may_wait(make_state: Any) -> None:
    state = make_state()
    state.llm.waiting, state.llm.waiting_tokens = 10**6, 10**9
    admit(state, 1000, 10**6)


def test_nobody_may_where_nothing_is_served(make_state: Any) -> None:
    starting, ending, dead = make_state(llm=None), make_state(), make_state()
    ending.is_draining = True
    dead.llm.death = EngineDeadError("killed")
    for state, code in ((starting, "starting"), (ending, "shutting_down"), (dead, "engine_dead")):
        with pytest.raises(ApiError) as refused:
            admit(state, 1, 1)
        assert (refused.value.status, refused.value.code) == (503, code)
        assert "Retry-After" in refused.value.headers
