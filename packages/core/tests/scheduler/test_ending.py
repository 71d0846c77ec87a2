import pytest

from octavo.engine.messages import EngineOutput
from octavo.testing.engine import EOS_TOKEN_ID, FakeEngine, fake_engine
from octavo.testing.model import scripted
from octavo.types import FinishReason


def run_script(script: list[int], **options: object) -> tuple[FakeEngine, EngineOutput]:
    engine = fake_engine(draw=scripted({"a": script}))
    engine.add("a", range(5), **{"ignore_eos": False, "max_tokens": 10, **options})
    engine.run()
    return engine, engine.last["a"]


def test_an_end_of_sequence_token_ends_and_belongs_to_the_output() -> None:
    engine, last = run_script([5, 6, EOS_TOKEN_ID, 7])
    assert engine.tokens["a"] == [5, 6, EOS_TOKEN_ID]
    assert (last.finish_reason, last.stop_reason) == (FinishReason.STOP, None)


def test_a_stop_token_id_ends_and_is_named() -> None:
    engine, last = run_script([5, 6, 7], stop_token_ids=[9, 6])
    assert engine.tokens["a"] == [5, 6]
    assert (last.finish_reason, last.stop_reason) == (FinishReason.STOP, 6)


def test_an_end_of_sequence_token_among_the_stop_ids_is_still_the_models() -> None:
    _, last = run_script([EOS_TOKEN_ID], stop_token_ids=[EOS_TOKEN_ID])
    assert (last.finish_reason, last.stop_reason) == (FinishReason.STOP, None)


def test_ignore_eos_goes_past_it_but_not_past_the_users_own_stop_id() -> None:
    engine, _ = run_script([EOS_TOKEN_ID, 5, 6], ignore_eos=True, max_tokens=3)
    assert engine.tokens["a"] == [EOS_TOKEN_ID, 5, 6]
    _, last = run_script([EOS_TOKEN_ID], ignore_eos=True, stop_token_ids=[EOS_TOKEN_ID])
    assert (last.finish_reason, last.stop_reason) == (FinishReason.STOP, EOS_TOKEN_ID)


@pytest.mark.parametrize("stop_token_ids", [[], [8]])
def test_nothing_ends_a_request_before_min_tokens(stop_token_ids: list[int]) -> None:
    ending = [*stop_token_ids, EOS_TOKEN_ID][0]
    engine, last = run_script([ending, ending, 5, ending, 6], min_tokens=3, stop_token_ids=stop_token_ids)
    assert engine.tokens["a"] == [ending, ending, 5, ending]
    assert last.finish_reason is FinishReason.STOP


def test_an_ending_token_at_the_limit_counts_as_stop() -> None:
    _, last = run_script([5, EOS_TOKEN_ID], max_tokens=2)
    assert last.finish_reason is FinishReason.STOP


@pytest.mark.parametrize(("ignore_eos", "ending"), [(False, [EOS_TOKEN_ID, 7, 9]), (True, [7, 9])])
def test_the_runner_learns_which_tokens_end_a_request(ignore_eos: bool, ending: list[int]) -> None:
    engine, _ = run_script([9], ignore_eos=ignore_eos, stop_token_ids=[9, 7])
    assert engine.plans[0].added[0].ending_token_ids == ending


def test_a_stop_string_found_outside_counts_as_stop_and_what_ran_beyond_as_overrun() -> None:
    engine = fake_engine()
    engine.add("a", range(5), max_tokens=50)
    engine.step(6)
    output = engine.loop.finish("a", 4)
    assert output is not None
    assert output.finish_reason is FinishReason.STOP
    assert output.times is not None
    assert output.times.first_token > 0
    assert engine.loop.finish("a", 4) is None
    engine.run()
    counters = engine.loop.stats().counters
    assert (counters.finished[FinishReason.STOP], counters.overrun_tokens) == (1, 2)
    assert engine.executor.device.request_ids == set()


def test_the_last_output_carries_the_times_in_order() -> None:
    engine, last = run_script([5, EOS_TOKEN_ID])
    times = last.times
    assert times is not None
    assert times.arrival == 1.0
    assert 1.0 < times.first_scheduled <= times.first_token <= times.finished
    assert times.num_preemptions == 0
    assert engine.last["a"] is last
