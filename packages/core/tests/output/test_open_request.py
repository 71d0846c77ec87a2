"""Requests token by token, on the fake engine."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from octavo import AsyncLLM, SamplingParams
from octavo.errors import EngineDeadError, InvalidRequestError
from octavo.output.token_delta import TokenDelta
from octavo.scheduler.plan import StepPlan
from octavo.testing.llm import FakeLLM, fake_llm
from octavo.testing.model import continuation, scripted
from octavo.types import FinishReason

WORDS = ["ABC", "DEF", "G", "HI", "J", "zz"]
SCRIPT = [3, 4, 5, 6, 7, 8]


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def in_time() -> Any:
        return await asyncio.wait_for(main, 30)

    return asyncio.run(in_time())


def greedy(**more: Any) -> SamplingParams:
    return SamplingParams(**{"temperature": 0, "max_tokens": 6, "ignore_eos": True, **more})


def deltas_of(params: SamplingParams, *, prompt: list[int] | None = None, **options: Any) -> list[TokenDelta]:
    """Every delta of one request; whole and streamed must agree."""

    async def main() -> list[TokenDelta]:
        fake = fake_llm(**{"words": WORDS, "draw": scripted({"0": SCRIPT, "1": SCRIPT}), **options})
        async with AsyncLLM.from_engine(fake.llm.engine) as llm:
            deltas: list[TokenDelta] = []
            with llm.open(llm._read(prompt or [9]), params) as request:
                while changes := await request.changes():
                    deltas += changes
                assert request.finished
                assert await request.changes() == []
                assert request.times is not None
                assert request.times.finished > 0
            for choice in request.output().outputs:
                own = [delta for delta in deltas if delta.index == choice.index]
                assert [delta.token_id for delta in own if delta.token_id is not None] == choice.token_ids
                assert "".join(delta.text for delta in own) == choice.text
                assert choice.logprobs is None or [delta.logprobs for delta in own] == choice.logprobs
                assert [delta.finish_reason for delta in own] == [None] * (len(own) - 1) + [choice.finish_reason]
                assert (own[-1].stop_reason, own[-1].error) == (choice.stop_reason, choice.error)
            stats = await llm.stats()
            assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)
            return deltas

    deltas: list[TokenDelta] = run(main())
    return deltas


def test_every_token_is_one_delta_with_its_text() -> None:
    deltas = deltas_of(greedy(max_tokens=3))
    assert [(delta.token_id, delta.text, delta.finish_reason) for delta in deltas] == [
        (3, "ABC", None),
        (4, "DEF", None),
        (5, "G", FinishReason.LENGTH),
    ]


@pytest.mark.parametrize("max_in_flight", [1, 2])
def test_text_that_may_begin_a_stop_string_comes_with_the_token_that_settles_it(max_in_flight: int) -> None:
    deltas = deltas_of(greedy(stop=["EFX", "FGHIJK"]), max_in_flight=max_in_flight)
    assert [delta.text for delta in deltas] == ["ABC", "D", "E", "", "", "FGHIJzz"]
    ended = deltas_of(greedy(stop=["FGH"]), max_in_flight=max_in_flight)
    assert [(delta.text, delta.finish_reason, delta.stop_reason) for delta in ended] == [
        ("ABC", None, None),
        ("DE", None, None),
        ("", None, None),
        ("", FinishReason.STOP, "FGH"),
    ]


def test_what_was_held_back_comes_with_the_last_token() -> None:
    assert [delta.text for delta in deltas_of(greedy(max_tokens=3, stop=["FGHIJK"]))] == ["ABC", "DE", "FG"]
    assert [delta.text for delta in deltas_of(greedy(max_tokens=2, detokenize=False))] == ["", ""]


def test_a_stop_token_is_a_delta_without_text() -> None:
    last = deltas_of(greedy(stop_token_ids=[5]))[-1]
    assert (last.token_id, last.text, last.finish_reason, last.stop_reason) == (5, "", FinishReason.STOP, 5)


def test_an_end_without_a_token_is_a_delta_too() -> None:
    (only,) = deltas_of(greedy(max_tokens=0, prompt_logprobs=0), prompt=[9, 8])
    assert (only.token_id, only.text, only.finish_reason) == (None, "", FinishReason.LENGTH)


def test_log_probabilities_come_with_their_tokens_and_those_of_the_prompt_before() -> None:
    deltas = deltas_of(greedy(logprobs=1, max_tokens=2))
    assert [list(delta.logprobs or ()) for delta in deltas] == [[3, 0], [4, 0]]


def test_several_continuations_are_told_apart() -> None:
    deltas = deltas_of(greedy(n=3, max_tokens=4, stop=["x"]), draw=scripted({"0": [3, 4, 5, 6], "0.1": [3, 999]}))
    ends = {delta.index: delta.finish_reason for delta in deltas if delta.finish_reason}
    assert ends[0] is FinishReason.LENGTH
    assert ends[1] is FinishReason.STOP
    assert len(ends) == 3


def facade(**options: Any) -> tuple[AsyncLLM, FakeLLM]:
    fake = fake_llm(**options)
    return AsyncLLM.from_engine(fake.llm.engine), fake


def test_prompt_values_and_cached_tokens_are_there_with_the_first_changes() -> None:
    async def main() -> None:
        llm, _ = facade()
        async with llm:
            prompt = llm._read(list(range(10, 50)))
            for num_cached in (0, 32):
                with llm.open(prompt, greedy()) as request:
                    await request.changes()
                    assert request.num_cached_tokens == num_cached
            with llm.open(prompt, greedy(prompt_logprobs=0)) as request:
                await request.changes()
                assert len(request.prompt_logprobs or ()) == len(request.prompt_token_ids) == 40

    run(main())


def test_a_slow_reader_gets_everything_at_once() -> None:
    async def main() -> None:
        llm, _ = facade()
        async with llm:
            with llm.open(llm._read([5]), greedy(max_tokens=20)) as slow:
                await llm.generate([6], greedy(max_tokens=60))
                deltas = await slow.changes()
                assert [delta.token_id for delta in deltas] == continuation([5], 20, vocab_size=1000)
                assert slow.finished

    run(main())


def test_what_came_before_the_engine_died_is_read_first() -> None:
    def faults(plan: StepPlan) -> dict[str, str]:
        if plan.step_id == 3:
            raise RuntimeError("the device is gone")
        return {}

    async def main() -> None:
        llm, _ = facade(faults=faults)
        async with llm:
            seen: list[TokenDelta] = []

            async def read_all() -> None:
                with llm.open(llm._read([5]), greedy()) as request:
                    while True:
                        seen.extend(await request.changes())

            with pytest.raises(EngineDeadError, match="the device is gone"):
                await read_all()
            assert [delta.token_id for delta in seen] == continuation([5], 3, vocab_size=1000)
            assert not llm.is_alive
            assert "the device is gone" in str(llm.death)
            with pytest.raises(EngineDeadError):
                llm.open(llm._read([5]), greedy())

    run(main())


def test_a_request_that_fails_says_why_in_its_last_delta() -> None:
    def faults(plan: StepPlan) -> dict[str, str]:
        return {"0": "a row of NaN"} if plan.step_id == 2 else {}

    *_, last = deltas_of(greedy(), faults=faults)
    assert (last.token_id, last.finish_reason, last.error) == (None, FinishReason.ERROR, "a row of NaN")


def test_opening_checks_and_queues_nothing() -> None:
    async def main() -> None:
        llm, fake = facade()
        async with llm:
            with pytest.raises(InvalidRequestError, match="context is 128"):
                llm.open(llm._read([5] * 128), greedy())
            llm.open(llm._read([5]), greedy())
            await llm.check_health()
            assert fake.engine.plans == []

    run(main())


def test_tenants_and_salts_reach_the_engine() -> None:
    async def main() -> None:
        llm, _ = facade()
        async with llm:
            prompt = llm._read([5] * 40)
            for salt, num_cached in (("a", 0), ("a", 32), ("b", 0)):
                with llm.open(prompt, greedy(), cache_salt=salt, tenant="somebody") as request:
                    assert (await request.result()).num_cached_tokens == num_cached
            assert set((await llm.stats()).tenants) == {"somebody"}

    run(main())
