import pytest

from octavo.errors import InvalidRequestError
from octavo.testing.engine import fake_engine
from octavo.testing.model import continuation
from octavo.types import FinishReason


def test_a_prompt_longer_than_the_pool_is_refused_at_once_and_the_next_request_is_served() -> None:
    engine = fake_engine(num_blocks=10, max_model_len=512)
    with pytest.raises(InvalidRequestError, match=r"200 tokens.*160") as caught:
        engine.add("large", range(200))
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "prompt")
    engine.add("small", range(20), max_tokens=3)
    engine.run()
    assert engine.tokens["small"] == continuation(range(20), 3)


def test_a_prompt_as_long_as_the_context_is_refused_and_one_shorter_gives_one_token() -> None:
    engine = fake_engine()
    with pytest.raises(InvalidRequestError, match=r"128 tokens.*128") as caught:
        engine.add("full", range(128))
    assert caught.value.code == "context_length_exceeded"
    engine.add("fits", range(127), max_tokens=1000)
    engine.run()
    assert engine.tokens["fits"] == continuation(range(127), 1)
    assert engine.last["fits"].finish_reason is FinishReason.LENGTH


def test_a_prompt_that_fills_the_pool_but_for_one_token_is_served() -> None:
    engine = fake_engine(num_blocks=4, max_model_len=512)
    engine.add("a", range(63), max_tokens=10)
    engine.run()
    assert engine.tokens["a"] == continuation(range(63), 1)


def test_a_request_alone_runs_until_the_pool_is_full_and_never_preempts_itself() -> None:
    engine = fake_engine(num_blocks=10, max_model_len=512)
    engine.add("a", range(100), max_tokens=400)
    engine.run()
    assert engine.tokens["a"] == continuation(range(100), 60)
    assert engine.last["a"].finish_reason is FinishReason.LENGTH
    assert engine.loop.stats().counters.preemptions == 0


@pytest.mark.parametrize(("max_tokens", "given"), [(1, 1), (28, 28), (1000, 28), (None, 28)])
def test_max_tokens_is_cut_to_what_the_context_leaves(max_tokens: int | None, given: int) -> None:
    engine = fake_engine()
    engine.add("a", range(100), max_tokens=max_tokens)
    engine.run()
    assert engine.tokens["a"] == continuation(range(100), given)


def test_with_max_tokens_0_a_prompt_may_fill_the_context_and_ends_without_a_token() -> None:
    engine = fake_engine()
    engine.add("a", range(128), max_tokens=0)
    engine.run()
    assert engine.tokens["a"] == []
    assert engine.last["a"].finish_reason is FinishReason.LENGTH
    assert all(not plan.num_output_tokens for plan in engine.plans)
    assert sum(plan.total_tokens for plan in engine.plans) == 128


@pytest.mark.parametrize("prompt", [[], [-1], [2**31], [10**20], [1, "a"], [None]])
def test_a_prompt_that_is_empty_or_holds_no_token_ids_is_refused(prompt: list[int]) -> None:
    engine = fake_engine()
    with pytest.raises(InvalidRequestError):
        engine.add("a", prompt)
    assert not engine.loop.has_work()


def test_an_id_in_use_is_refused_and_free_again_after_the_end() -> None:
    engine = fake_engine()
    engine.add("a", range(5), max_tokens=2)
    with pytest.raises(InvalidRequestError, match="in use"):
        engine.add("a", range(5))
    engine.step(2)
    assert engine.last["a"].finish_reason is FinishReason.LENGTH
    engine.add("a", range(7), max_tokens=2)
    engine.run()
    assert engine.tokens["a"] == continuation(range(7), 2)
