from octavo.testing.engine import EOS_TOKEN_ID, fake_engine
from octavo.testing.model import continuation, scripted
from octavo.types import FinishReason


def test_steps_are_made_ahead_of_results_with_placeholders() -> None:
    engine = fake_engine(max_in_flight=2)
    engine.add("a", range(40), max_tokens=10)
    first, second, third = (engine.scheduler.schedule() for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert [plan.num_tokens for plan in (first, second, third)] == [{"a": 32}, {"a": 8}, {"a": 1}]
    assert [plan.num_output_tokens for plan in (first, second, third)] == [{}, {"a": 0}, {"a": 1}]
    assert third.continued[0].num_computed_tokens == 40


def test_no_step_goes_past_the_last_token() -> None:
    engine = fake_engine(max_in_flight=3)
    engine.add("a", range(10), max_tokens=3)
    engine.run()
    assert engine.tokens["a"] == continuation(range(10), 3)
    assert sum(plan.total_tokens for plan in engine.plans) == 12


def test_a_scoring_request_runs_its_prompt_once() -> None:
    engine = fake_engine(max_in_flight=2)
    engine.add("a", range(40), max_tokens=0)
    engine.run()
    assert sum(plan.total_tokens for plan in engine.plans) == 40
    assert engine.last["a"].finish_reason is FinishReason.LENGTH


def test_what_a_step_made_ahead_samples_after_the_end_is_dropped() -> None:
    engine = fake_engine(max_in_flight=2, draw=scripted({"a": [5, EOS_TOKEN_ID, 6, 7]}))
    engine.add("a", range(10), max_tokens=20, ignore_eos=False)
    engine.run()
    assert engine.tokens["a"] == [5, EOS_TOKEN_ID]
    assert engine.loop.stats().counters.generated_tokens == 2


def test_generated_blocks_are_shared_once_their_tokens_are_known() -> None:
    engine = fake_engine(max_in_flight=2)
    engine.add("a", range(20), max_tokens=20)
    engine.run()
    engine.add("b", [*range(20), *engine.tokens["a"]], max_tokens=1)
    engine.run()
    assert engine.last["b"].num_cached_tokens == 32
