import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest

from octavo import AsyncLLM, SamplingParams
from octavo.errors import EngineDeadError, InvalidRequestError, RequestFailedError
from octavo.outputs import RequestOutput
from octavo.scheduler.plan import StepPlan
from octavo.testing.llm import GREEDY, FakeLLM, fake_llm
from octavo.testing.model import continuation
from octavo.types import FinishReason

ENDLESS = SamplingParams(temperature=0, max_tokens=None, ignore_eos=True)
LONG = 100_000
"""A context that no test comes to the end of."""


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def in_time() -> Any:
        return await asyncio.wait_for(main, 30)

    return asyncio.run(in_time())


def facade(**options: Any) -> tuple[AsyncLLM, FakeLLM]:
    fake = fake_llm(**options)
    return AsyncLLM.from_engine(fake.llm.engine), fake


def endless(**options: Any) -> tuple[AsyncLLM, FakeLLM]:
    return facade(max_model_len=LONG, num_blocks=LONG // 16 * 4, **options)


async def assert_idle(llm: AsyncLLM) -> None:
    stats = await llm.stats()
    assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)


async def collect(stream: AsyncGenerator[RequestOutput, None]) -> list[RequestOutput]:
    return [output async for output in stream]


class Gate:
    """Holds the engine's thread at the beginning of a step until the test opens it."""

    def __init__(self) -> None:
        self._step_is_due = threading.Event()
        self._may_step = threading.Event()

    def __call__(self, plan: StepPlan) -> dict[str, str]:
        self._step_is_due.set()
        assert self._may_step.wait(30)
        return {}

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._step_is_due.wait, 30)

    def open(self) -> None:
        self._may_step.set()


def test_a_stream_grows_to_what_generate_returns() -> None:
    async def main() -> None:
        llm, _ = facade(words=["hello", "there"])
        async with llm:
            outputs = await collect(llm.stream("hello there", GREEDY, request_id="mine"))
            expected = continuation([3, 4], 5, vocab_size=1000)
            assert outputs[-1].outputs[0].token_ids == expected
            assert outputs[-1].outputs[0].finish_reason is FinishReason.LENGTH
            assert [output.finished for output in outputs] == [False] * (len(outputs) - 1) + [True]
            for before, after in pairwise(outputs):
                assert after.outputs[0].token_ids[: len(before.outputs[0].token_ids)] == before.outputs[0].token_ids
                assert after.outputs[0].text.startswith(before.outputs[0].text)
            assert {output.request_id for output in outputs} == {"mine"}
            assert outputs[-1].metrics.finished > 0
            generated = await llm.generate({"prompt_token_ids": [3, 4]}, GREEDY)
            assert generated.outputs[0].text == outputs[-1].outputs[0].text
            assert generated.request_id not in {"", "mine"}
            await assert_idle(llm)

    run(main())


def test_a_thousand_streams_get_each_their_own() -> None:
    async def main() -> None:
        llm, _ = facade(num_blocks=64, max_num_seqs=16, max_num_batched_tokens=256)
        async with llm:
            prompts = [[3 + index % 900, 5 + index // 900] for index in range(1000)]
            done = await asyncio.gather(*(collect(llm.stream(prompt, GREEDY)) for prompt in prompts))
            for prompt, outputs in zip(prompts, done, strict=True):
                assert outputs[-1].outputs[0].token_ids == continuation(prompt, 5, vocab_size=1000)
            await assert_idle(llm)

    run(main())


def test_a_step_crosses_to_the_event_loop_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        llm, fake = facade(num_blocks=64, max_num_seqs=32, max_num_batched_tokens=256)
        loop, calls = asyncio.get_running_loop(), []
        original = loop.call_soon_threadsafe

        def counting(callback: Any, *arguments: Any, **more: Any) -> Any:
            calls.append(callback)
            return original(callback, *arguments, **more)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counting)
        await asyncio.gather(*(llm.generate([3 + index], GREEDY) for index in range(32)))
        assert 0 < len(calls) <= len(fake.engine.plans)
        await llm.close()

    run(main())


def test_a_request_joins_while_others_run() -> None:
    async def main() -> None:
        llm, fake = endless()
        async with llm, aclosing(llm.stream([5], ENDLESS)) as stream:
            await anext(stream)
            output = await llm.generate([6], GREEDY)
            assert output.outputs[0].token_ids == continuation([6], 5, vocab_size=1000)
            assert not (await anext(stream)).finished
        assert any(len(plan.num_tokens) == 2 for plan in fake.engine.plans)

    run(main())


def test_a_slow_reader_misses_nothing() -> None:
    async def main() -> None:
        llm, _ = facade()
        async with llm:
            stream = llm.stream([5], SamplingParams(temperature=0, max_tokens=20, ignore_eos=True))
            outputs = [await anext(stream)]
            await llm.generate([6], SamplingParams(temperature=0, max_tokens=60, ignore_eos=True))
            outputs += await collect(stream)
            assert len(outputs) <= 2
            assert outputs[-1].finished
            assert outputs[-1].outputs[0].token_ids == continuation([5], 20, vocab_size=1000)

    run(main())


def test_closing_a_stream_ends_its_request() -> None:
    async def main() -> None:
        llm, _ = endless()
        async with llm:
            stream = llm.stream([5], ENDLESS)
            await anext(stream)
            assert (await llm.stats()).running == 1
            await stream.aclose()
            await assert_idle(llm)

    run(main())


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("streams", [True, False])
def test_cancelling_a_task_ends_its_request(streams: bool, n: int) -> None:
    async def main() -> None:
        gate = Gate()
        llm, _ = endless(faults=gate)
        params = SamplingParams(temperature=0, max_tokens=None, ignore_eos=True, n=n)
        async with llm:
            task = asyncio.create_task(collect(llm.stream([5], params)) if streams else llm.generate([5], params))
            await gate.reached()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gate.open()
            await assert_idle(llm)
            assert (await llm.generate([6], GREEDY)).finished

    run(main())


def test_cancelling_a_request_that_waits_frees_its_place() -> None:
    async def main() -> None:
        llm, _ = endless(max_num_seqs=1)
        async with llm, aclosing(llm.stream([5], ENDLESS)) as first:
            await anext(first)
            task = asyncio.create_task(llm.generate([6], ENDLESS))
            while (await llm.stats()).waiting == 0:
                pass
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            stats = await llm.stats()
            assert (stats.running, stats.waiting) == (1, 0)
            await anext(first)

    run(main())


def test_abort_ends_all_requests_of_a_name_and_says_so_in_their_last_outputs() -> None:
    async def main() -> None:
        llm, _ = endless()
        async with llm:
            streams = [llm.stream([5 + index], ENDLESS, request_id="both") for index in range(2)]
            for stream in streams:
                await anext(stream)
            assert llm.abort("both")
            for stream in streams:
                *_, last = await collect(stream)
                assert last.finished
                assert last.outputs[0].finish_reason is FinishReason.ABORT
            await assert_idle(llm)
            assert not llm.abort("both")
            assert not llm.abort("nobody")
            assert (await llm.generate([6], GREEDY)).finished

    run(main())


def test_abort_at_every_moment_leaves_nothing_behind() -> None:
    async def main() -> None:
        llm, _ = facade(num_blocks=6)
        params = SamplingParams(temperature=1, seed=1, max_tokens=8, ignore_eos=True, n=2)
        async with llm:
            for moment in range(12):
                stream = llm.stream([5] * 20, params, request_id="x")
                outputs = []
                async for output in stream:
                    outputs.append(output)
                    if len(outputs) == moment:
                        llm.abort("x")
                assert outputs[-1].finished
                await assert_idle(llm)
            assert (await llm.generate([6], GREEDY)).outputs[0].token_ids == continuation([6], 5, vocab_size=1000)

    run(main())


@pytest.mark.parametrize("name", [["a"], 5, b"a"])
def test_names_of_requests_are_strings(name: Any) -> None:
    async def main() -> None:
        llm, _ = facade()
        async with llm:
            for attempt in (llm.generate([5], GREEDY, request_id=name), collect(llm.stream([5], GREEDY, request_id=name))):
                with pytest.raises(InvalidRequestError, match=r"request_id is .*give a string"):
                    await attempt
            with pytest.raises(InvalidRequestError, match="request_id is"):
                llm.abort(name)
            assert len(llm._requests) == 0
            await assert_idle(llm)

    run(main())


def test_a_request_is_aborted_once() -> None:
    async def main() -> None:
        llm, _ = endless()
        async with llm:
            async for output in llm.stream([5], ENDLESS, request_id="mine"):
                if not output.finished:
                    assert llm.abort("mine")
                assert not llm.abort("mine")
            await assert_idle(llm)

    run(main())


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), 10**400, None, "1", True])
def test_a_time_that_is_none_says_nothing_of_the_engine(timeout_s: Any) -> None:
    async def main() -> None:
        llm, _ = facade()
        async with llm:
            with pytest.raises(InvalidRequestError, match=r"timeout_s is .*seconds above 0"):
                await llm.check_health(timeout_s=timeout_s)
            await llm.check_health()

    run(main())


def test_readers_hear_of_outputs_that_cannot_be_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        llm, _ = endless()
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)

        def fail(_outputs: object) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(llm._requests._processor, "process", fail)
        with pytest.raises(EngineDeadError, match="could not be handed out: ZeroDivisionError: a bug"):
            await llm.generate([5], ENDLESS)
        monkeypatch.undo()
        assert (await llm.generate([6], GREEDY)).finished
        await llm.close()

    run(main())


def test_a_stop_string_ends_the_request_in_the_engine_too() -> None:
    async def main() -> None:
        tokens = continuation([5], 4, vocab_size=1000)
        llm, _ = endless()
        async with llm:
            word = llm.tokenizer.token(tokens[2])
            params = SamplingParams(temperature=0, max_tokens=None, ignore_eos=True, stop=[str(word)])
            for output in ((await collect(llm.stream([5], params)))[-1], await llm.generate([5], params)):
                assert output.outputs[0].stop_reason == word
                assert output.outputs[0].token_ids == tokens[:3]
                assert output.metrics.finished > 0
            stats = await llm.stats()
            assert stats.counters.finished[FinishReason.STOP] == 2
            await assert_idle(llm)

    run(main())


@pytest.mark.parametrize(
    ("prompt", "params", "said"),
    [
        ([], GREEDY, "no tokens"),
        ([5] * 128, GREEDY, "context is 128"),
        ([5], SamplingParams(stop_token_ids=[5000]), r"\[0, 1000\)"),
        ([5], {"temperature": 0}, "sampling_params"),
        ("x" * 5000 + "\ud800", GREEDY, "surrogate"),
    ],
)
def test_an_impossible_request_is_refused_and_disturbs_nobody(prompt: Any, params: Any, said: str) -> None:
    async def main() -> None:
        llm, _ = facade()
        async with llm:
            other = asyncio.create_task(llm.generate([5], SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)))
            for attempt in (llm.generate(prompt, params), collect(llm.stream(prompt, params))):
                with pytest.raises(InvalidRequestError, match=said):
                    await attempt
            assert (await other).outputs[0].token_ids == continuation([5], 40, vocab_size=1000)
            await assert_idle(llm)

    run(main())


def test_long_texts_and_messages_become_the_same_tokens_as_short_ones() -> None:
    async def main() -> None:
        llm, _ = facade(words=["hello", "user", "assistant"], max_model_len=4000, num_blocks=300)
        one = SamplingParams(temperature=0, max_tokens=1)
        async with llm:
            assert (await llm.generate("hello " * 1000, one)).prompt_token_ids == [3] * 1000
            assert (await llm.generate({"prompt": "hello " * 1000}, one)).prompt_token_ids == [3] * 1000
            messages = [{"role": "user", "content": "hello " * 1000}]
            assert (await llm.generate(messages, one)).prompt_token_ids == [4, *[3] * 1000, 5]

    run(main())


def test_a_failed_request_raises_in_its_stream_alone() -> None:
    def faults(plan: StepPlan) -> dict[str, str]:
        return {"1": "a row of NaN"} if "1" in plan.num_tokens else {}

    async def main() -> None:
        llm, _ = facade(faults=faults)
        async with llm:
            done = await asyncio.gather(*(llm.generate([5 + index], GREEDY) for index in range(3)), return_exceptions=True)
            assert isinstance(done[1], RequestFailedError)
            assert str(done[1]) == "a row of NaN"
            assert done[1].outputs[0].outputs[0].finish_reason is FinishReason.ERROR
            assert [output.outputs[0].token_ids for output in (done[0], done[2])] == [
                continuation([prompt], 5, vocab_size=1000) for prompt in (5, 7)
            ]
            await assert_idle(llm)

    run(main())


def test_a_dead_engine_raises_in_every_stream_and_ever_after() -> None:
    def faults(plan: StepPlan) -> dict[str, str]:
        if plan.step_id == 5:
            raise RuntimeError("the device is gone")
        return {}

    async def main() -> None:
        llm, _ = endless(faults=faults)
        async with llm:
            tasks = [asyncio.create_task(collect(llm.stream([5 + index], ENDLESS))) for index in range(8)]
            tasks.append(asyncio.create_task(llm.generate([20], ENDLESS)))
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(result, EngineDeadError)
                assert "the device is gone" in str(result)
            for attempt in (llm.generate([5], GREEDY), llm.check_health(), llm.reset_prefix_cache()):
                with pytest.raises(EngineDeadError):
                    await attempt
            assert (await llm.stats()).counters.steps > 0

    run(main())


def test_a_closed_facade_ends_its_streams_and_refuses_prompts() -> None:
    async def main() -> None:
        llm, fake = endless()
        async with llm:
            stream = llm.stream([5], ENDLESS)
            await anext(stream)
        with pytest.raises(EngineDeadError, match="closed"):
            await collect(stream)
        await llm.close()
        for attempt in (llm.generate([5], GREEDY), llm.check_health(), llm.stats()):
            with pytest.raises(EngineDeadError, match="closed"):
                await attempt
        assert fake.engine.executor.is_shut_down

    run(main())


def test_health_is_that_of_the_steps() -> None:
    async def main() -> None:
        gate = Gate()
        llm, _ = facade(faults=gate)
        async with llm:
            await llm.check_health()
            task = asyncio.create_task(llm.generate([5], GREEDY))
            await gate.reached()
            with pytest.raises(EngineDeadError, match="end of a step"):
                await llm.check_health(timeout_s=0.01)
            gate.open()
            await llm.check_health()
            assert (await task).finished

    run(main())


def test_the_prefix_cache_is_reset_between_requests_only() -> None:
    async def main() -> None:
        llm, _ = endless()
        async with llm:
            assert (await llm.generate([5] * 40, GREEDY)).num_cached_tokens == 0
            assert (await llm.generate([5] * 40, GREEDY)).num_cached_tokens == 32
            async with aclosing(llm.stream([5], ENDLESS)) as stream:
                await anext(stream)
                assert not await llm.reset_prefix_cache()
            assert await llm.reset_prefix_cache()
            assert (await llm.generate([5] * 40, GREEDY)).num_cached_tokens == 0

    run(main())


def test_priorities_reach_the_scheduler() -> None:
    async def main() -> None:
        from octavo.scheduler.policy import Priority

        gate = Gate()
        llm, _ = facade(faults=gate, max_num_seqs=1, policy=Priority())
        done: list[int] = []

        async def one(priority: int) -> None:
            await llm.generate([5], GREEDY, priority=priority)
            done.append(priority)

        async with llm:
            first = asyncio.create_task(one(0))
            await gate.reached()
            others = [asyncio.create_task(one(priority)) for priority in (3, 1, 2)]
            ready = asyncio.create_task(llm.stats())
            await asyncio.sleep(0)
            gate.open()
            await asyncio.gather(first, ready, *others)
        assert done == [0, 1, 2, 3]

    run(main())


def test_one_facade_serves_one_event_loop_after_the_other() -> None:
    llm, _ = endless()

    async def left_open() -> None:
        stream = llm.stream([5], ENDLESS)
        await anext(stream)

    async def whole() -> None:
        assert (await llm.generate([6], GREEDY)).outputs[0].token_ids == continuation([6], 5, vocab_size=1000)
        await assert_idle(llm)

    run(left_open())
    run(whole())
    run(llm.close())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("then", ["generate", "abort", "close"])
def test_an_event_loop_that_was_closed_under_its_requests_holds_nobody_up(then: str) -> None:
    llm, _ = endless()
    ended = asyncio.new_event_loop()
    task = ended.create_task(llm.generate([5], ENDLESS, request_id="lost"))
    ended.run_until_complete(asyncio.sleep(0))
    ended.run_until_complete(llm.check_health())
    assert len(llm._requests) == 1
    ended.close()
    if then == "generate":
        assert run(llm.generate([6], GREEDY)).outputs[0].token_ids == continuation([6], 5, vocab_size=1000)
    if then == "abort":
        assert not llm.abort("lost")
    if then != "close":
        assert len(llm._requests) == 0
        run(assert_idle(llm))
    run(llm.close())
    # Its end must not be reported by the interpreter, to whom the closed loop is a mistake of the program.
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_an_event_loop_that_ended_before_its_last_delivery_holds_nobody_up() -> None:
    llm, _ = facade()
    ended = asyncio.new_event_loop()
    ended.run_until_complete(llm.generate([5], GREEDY))
    llm._requests.link._hand_over([])  # type: ignore[attr-defined]
    ended.close()
    assert run(llm.generate([6], GREEDY)).outputs[0].token_ids == continuation([6], 5, vocab_size=1000)
    run(llm.close())


def test_defaults_and_flags_are_those_of_the_offline_facade() -> None:
    llm, _ = facade()
    assert llm.default_sampling_params(top_k=3) == SamplingParams(top_k=3)
    run(llm.close())
    with pytest.raises(ValueError, match="did you mean 'max_model_len'"):
        AsyncLLM("no such model", max_model_length=7)
