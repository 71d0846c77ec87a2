"""Streams: what they hold, and what becomes of them when something goes wrong."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.scheduler.plan import StepPlan

WORDS = ("ab", "b", "a", "bc", "c", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0xC3>", "user", "assistant", "hello")
LONG = 100_000


class Gate:
    """Holds the engine's thread at a step until the test opens it; passes the first few."""

    def __init__(self, free_steps: int = 0) -> None:
        self._free = free_steps
        self._may_step = threading.Event()

    def __call__(self, plan: StepPlan) -> dict[str, str]:
        if plan.num_tokens:
            self._free -= 1
            if self._free < 0:
                assert self._may_step.wait(30)
        return {}

    def open(self) -> None:
        self._may_step.set()


class FailingStep:
    """Fails every request in one step, or kills the engine."""

    def __init__(self, step: int, *, fatal: bool = False) -> None:
        self._left = step
        self._fatal = fatal

    def __call__(self, plan: StepPlan) -> dict[str, str]:
        if not plan.num_tokens:
            return {}
        self._left -= 1
        if self._left:
            return {}
        if self._fatal:
            raise RuntimeError("the device is gone")
        return dict.fromkeys(plan.num_tokens, "NaN in the logits")


@pytest.mark.parametrize("chat", [False, True])
def test_usage_comes_once_behind_the_end(with_client: Callable[..., None], chat: bool) -> None:
    async def scenario(client: Any) -> None:
        ask = client.chat if chat else client.complete
        whole = await ask("hello", max_tokens=5, n=2, ignore_eos=True)
        answer = await ask("hello", max_tokens=5, n=2, ignore_eos=True, stream=True, stream_options={"include_usage": True})
        *events, last = answer.events
        assert (last["choices"], last["usage"]) == ([], whole.json["usage"])
        assert [event["usage"] for event in events] == [None] * 10
        plain = await ask("hello", max_tokens=5, stream=True)
        assert all("usage" not in event for event in plain.events)

    with_client(scenario, words=WORDS)


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("chat", [False, True])
def test_continuous_usage_never_falls(with_client: Callable[..., None], chat: bool, at_end: bool) -> None:
    async def scenario(client: Any) -> None:
        options = {"continuous_usage_stats": True, "include_usage": at_end}
        answer = await (client.chat if chat else client.complete)("hello", max_tokens=4, n=2, stream=True, stream_options=options, seed=1)
        usages = [event["usage"] for event in answer.events]
        assert [usage["completion_tokens"] for usage in usages[:8]] == list(range(1, 9))
        assert len(usages) == 8 + at_end
        assert usages[-1]["total_tokens"] == usages[-1]["prompt_tokens"] + 8

    with_client(scenario, words=WORDS)


def test_options_of_streams_need_a_stream(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete(stream_options={"include_usage": True})
        assert answer.error["param"] == "stream_options"

    with_client(scenario)


@pytest.mark.parametrize("chat", [False, True])
def test_every_token_is_one_event_and_every_choice_ends_once(with_client: Callable[..., None], chat: bool) -> None:
    async def scenario(client: Any) -> None:
        answer = await (client.chat if chat else client.complete)("hello", n=3, max_tokens=7, ignore_eos=True, stream=True, stop=["x1"])
        for index in range(3):
            choices = [event["choices"][0] for event in answer.events if event["choices"][0]["index"] == index]
            reasons = [choice["finish_reason"] for choice in choices]
            assert [reason for reason in reasons if reason is not None] == reasons[-1:]
            if reasons[-1] == "length":
                assert len(choices) == 7

    with_client(scenario, words=WORDS)


@pytest.mark.parametrize("chat", [False, True])
def test_no_output_at_all_is_one_event(with_client: Callable[..., None], chat: bool) -> None:
    async def scenario(client: Any) -> None:
        (event,) = (await (client.chat if chat else client.complete)("hello", max_tokens=0, stream=True)).events
        assert event["choices"][0]["finish_reason"] == "length"

    with_client(scenario, words=WORDS)


def joined(parts: list[Any], *, chat: bool) -> dict[int, Any]:
    """Everything that the parts of an answer say of each choice, put together."""
    found: dict[int, Any] = {}
    for part in parts:
        for choice in part["choices"]:
            so_far = found.setdefault(choice["index"], {"text": "", "ids": [], "logprobs": [], "end": None})
            so_far["text"] += (choice.get("delta") or choice.get("message"))["content"] if chat else choice["text"]
            so_far["ids"] += choice["token_ids"]
            if choice["logprobs"] is not None:
                table = choice["logprobs"]
                so_far["logprobs"] += table["content"] if chat else zip(*table.values(), strict=True)
            if choice["finish_reason"] is not None:
                assert so_far["end"] is None
                so_far["end"] = (choice["finish_reason"], choice["stop_reason"])
    return found


@given(
    script=st.lists(st.integers(2, len(WORDS) + 3), min_size=1, max_size=12),
    chat=st.booleans(),
    fields=st.fixed_dictionaries(
        {
            "stop": st.lists(st.text("abc", min_size=1, max_size=4), max_size=2),
            "include_stop_str_in_output": st.booleans(),
            "ignore_eos": st.booleans(),
            "skip_special_tokens": st.booleans(),
            "max_tokens": st.integers(0, 12),
            "echo": st.booleans(),
            "n": st.integers(1, 3),
        }
    ),
    logprobs=st.none() | st.integers(0, 2),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_stream_says_the_same_as_a_whole_answer(
    with_client: Callable[..., None], script: list[int], chat: bool, fields: dict[str, Any], logprobs: int | None
) -> None:
    async def scenario(client: Any) -> None:
        asked = {} if logprobs is None else {"logprobs": True, "top_logprobs": logprobs} if chat else {"logprobs": logprobs}
        ask = client.chat if chat else client.complete
        whole = await ask("hello", return_token_ids=True, **fields, **asked)
        stream = await ask("hello", return_token_ids=True, stream=True, stream_options={"include_usage": True}, **fields, **asked)
        assert whole.status == 200, whole
        *events, last = stream.events
        assert joined(events, chat=chat) == joined([whole.json], chat=chat)
        assert last["usage"] == whole.json["usage"]
        assert len(events) == sum(max(1, len(choice["ids"])) for choice in joined(events, chat=chat).values())
        plain = await ask("hello", stream=True, **fields)
        texts = dict.fromkeys(range(fields["n"]), "")
        for event in plain.events:
            for choice in event["choices"]:
                texts[choice["index"]] += choice["delta"]["content"] if chat else choice["text"]
        assert texts == {index: choice["text"] for index, choice in joined(events, chat=chat).items()}

    with_client(scenario, words=WORDS, script=script)


@pytest.mark.parametrize("chat", [False, True])
def test_a_request_that_fails_later_says_so_in_its_stream(with_client: Callable[..., None], chat: bool) -> None:
    async def scenario(client: Any) -> None:
        answer = await (client.chat if chat else client.complete)("hello", max_tokens=9, ignore_eos=True, stream=True)
        *events, error = answer.events
        assert len(events) == 2
        assert "NaN in the logits" in error["error"]["message"]
        assert error["error"]["type"] == "server_error"
        assert (await client.complete("hello", max_tokens=2)).status == 200

    with_client(scenario, words=WORDS, faults=FailingStep(3))


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_fails_at_once_has_a_status_that_says_so(with_client: Callable[..., None], stream: bool) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete("hello", stream=stream)
        assert (answer.status, answer.error["type"]) == (500, "server_error")
        assert "NaN in the logits" in answer.error["message"]

    with_client(scenario, faults=FailingStep(1))


def test_a_dead_engine_ends_streams_and_refuses_the_next_request(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete(["hello", "there"], max_tokens=9, ignore_eos=True, stream=True)
        assert answer.events[-1]["error"]["code"] == "engine_dead"
        answer = await client.complete("hello", stream=True)
        assert answer.status == 503

    with_client(scenario, faults=FailingStep(3, fatal=True))


@pytest.mark.parametrize("fields", [{}, {"n": 3}, {"prompt": ["hello", "there", "world"]}])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_frees_its_blocks(with_client: Callable[..., None], stream: bool, fields: dict[str, Any]) -> None:
    async def scenario(client: Any) -> None:
        body = {"prompt": "hello", "max_tokens": LONG, "ignore_eos": True, "stream": stream, **fields}
        exchange = client.begin("/v1/completions", body)
        if stream:
            await exchange.first_part()
        else:
            while (await client.llm.stats()).running == 0:
                await asyncio.sleep(0)
        await exchange.hang_up()
        await client.assert_idle()
        assert (await client.complete("hello", max_tokens=1)).status == 200

    with_client(scenario, max_model_len=LONG, num_blocks=LONG // 16 * 4)


def test_a_client_that_hangs_up_before_the_first_token_is_noticed(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        exchange = client.begin("/v1/completions", {"prompt": "hello", "stream": True})
        while client.llm.load().running + client.llm.load().waiting == 0:
            await asyncio.sleep(0)
        await exchange.hang_up()
        assert exchange.status == 0
        gate.open()

    gate = Gate()
    with_client(scenario, faults=gate)


def test_a_slow_reader_gets_everything_in_few_parts(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        exchange = client.begin("/v1/completions", {"prompt": "hello", "max_tokens": 100, "ignore_eos": True, "stream": True})
        await exchange.first_part()
        exchange.stop_reading()
        await client.complete("there", max_tokens=110, ignore_eos=True)
        exchange.go_on_reading()
        answer = await exchange.finish()
        assert len(answer.events) == 100
        assert len(exchange.received) < 100

    with_client(scenario)


def test_silence_is_broken_by_comments(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        exchange = client.begin("/v1/completions", {"prompt": "hello", "max_tokens": 4, "stream": True, "ignore_eos": True})
        while exchange.received.count(b": keep-alive\n\n") < 3:
            await exchange.first_part()
            await asyncio.sleep(0)
        gate.open()
        answer = await exchange.finish()
        assert answer.body.replace(b": keep-alive\n\n", b"").count(b"data: ") == 5

    gate = Gate(free_steps=2)
    with_client(scenario, faults=gate, flags={"sse_keepalive_s": 0.01})


def test_streams_say_how_they_are_to_be_handled(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete("hello", stream=True)
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"

    with_client(scenario)
