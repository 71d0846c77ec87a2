"""Anthropic's API: its own client against a server on a socket, and what that client would hide over ASGI."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from octavo.scheduler.plan import StepPlan

if TYPE_CHECKING:
    import anthropic

WORDS = ("hello", "there", "world", "ab", "bc", "user", "assistant", "system", "be", "brief")
HELLO, THERE, WORLD, AB, BC = range(3, 8)
USER: list[Any] = [{"role": "user", "content": "hello there"}]
Scenario = Callable[[Any], Awaitable[None]]


@asynccontextmanager
async def on_a_socket(app: Any, **client_options: Any) -> "AsyncIterator[anthropic.AsyncAnthropic]":
    """Anthropic's client of an application that a real server serves."""
    import anthropic

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            async with anthropic.AsyncAnthropic(base_url=address, max_retries=0, **{"api_key": "any", **client_options}) as client:
                yield client
        finally:
            server.should_exit = True
            await serving


def fields(**more: Any) -> dict[str, Any]:
    return {"model": "fake", "messages": USER, "max_tokens": 6, "temperature": 0.0, **more}


def given(**more: Any) -> dict[str, Any]:
    """The same as arguments of the client, which knows no temperature of its own."""
    sent = fields(**more)
    beside = {"temperature": sent.pop("temperature")}
    return {**sent, "extra_body": beside}


def frames(answer: Any) -> list[dict[str, Any]]:
    """The events of a stream, each of which says its type twice."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    *parts, rest = answer.body.decode().split("\n\n")
    assert rest == ""
    found = []
    for part in parts:
        name, data = part.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        found.append(value)
    return found


def refusal(answer: Any, status: int, kind: str) -> str:
    """What an error says, in Anthropic's envelope."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json) == ["type", "error"]
    assert answer.json["type"] == "error"
    assert set(answer.json["error"]) == {"type", "message"}
    assert answer.json["error"]["type"] == kind
    message: str = answer.json["error"]["message"]
    return message


def test_its_own_client_gets_a_message(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        async with on_a_socket(client.app) as own:
            message = await own.messages.create(**given(system="be brief", metadata={"user_id": "u"}))
        assert (message.type, message.role, message.model) == ("message", "assistant", "fake")
        assert message.id.startswith("msg_")
        assert [block.type for block in message.content] == ["text"]
        assert message.content[0].text == "hellothere"
        assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
        # The template's own words: system be brief user hello there assistant.
        assert (message.usage.input_tokens, message.usage.output_tokens) == (7, 3)
        assert message.usage.cache_read_input_tokens == 0

    with_client(scenario, words=WORDS, script=[HELLO, THERE, 2])


@pytest.mark.parametrize(
    ("more", "script", "stop"),
    [
        ({}, [HELLO, THERE, 2], ("end_turn", None)),
        ({"max_tokens": 3}, [HELLO, THERE, WORLD, AB], ("max_tokens", None)),
        ({"stop_sequences": ["never", "therewor"]}, [HELLO, THERE, WORLD, AB], ("stop_sequence", "therewor")),
    ],
)
def test_a_stream_adds_up_to_the_answer_in_one_piece(
    with_client: Callable[..., None], more: dict[str, Any], script: list[int], stop: tuple[str, str | None]
) -> None:
    async def scenario(client: Any) -> None:
        async with on_a_socket(client.app) as own:
            whole = await own.messages.create(**given(**more))
            async with own.messages.stream(**given(**more)) as stream:
                texts = [text async for text in stream.text_stream]
                streamed = await stream.get_final_message()
        assert (whole.stop_reason, whole.stop_sequence) == stop
        assert "".join(texts) == whole.content[0].text
        differing = {"id"}
        assert streamed.model_dump(exclude=differing) == whole.model_dump(exclude=differing)

    with_client(scenario, words=WORDS, script=script, enable_prefix_caching=False)


def test_events_come_in_their_order(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        events = frames(await client.post("/v1/messages", fields(stream=True)))
        types = [event["type"] for event in events]
        assert types[:3] == ["message_start", "content_block_start", "ping"]
        assert types[3:-3] == ["content_block_delta"] * (len(types) - 6)
        assert types[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        start = events[0]["message"]
        assert (start["content"], start["stop_reason"], start["stop_sequence"]) == ([], None, None)
        assert start["usage"] == {"input_tokens": 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
        assert events[1] == {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        assert [event["delta"]["text"] for event in events[3:-3]] == ["hello", "there"]
        assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
        assert events[-2]["usage"]["output_tokens"] == 3

    with_client(scenario, words=WORDS, script=[HELLO, THERE, 2])


def test_text_that_holds_the_encoders_own_marks_passes(with_client: Callable[..., None]) -> None:
    words = (*WORDS, '"quoted\\"', "line\u2028break", "\x01")
    first = 3 + len(WORDS)

    async def scenario(client: Any) -> None:
        whole = (await client.post("/v1/messages", fields())).json["content"][0]["text"]
        events = frames(await client.post("/v1/messages", fields(stream=True)))
        assert "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta") == whole
        assert '"quoted\\"' in whole

    with_client(scenario, words=words, script=[first, first + 1, first + 2, 2])


def test_tokens_from_the_prefix_cache_are_counted_apart(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        long = fields(messages=[{"role": "user", "content": "hello " * 40}])
        first = (await client.post("/v1/messages", long)).json["usage"]
        second = (await client.post("/v1/messages", long)).json["usage"]
        streamed = frames(await client.post("/v1/messages", {**long, "stream": True}))
        assert (first["input_tokens"], first["cache_read_input_tokens"]) == (42, 0)
        assert (second["input_tokens"], second["cache_read_input_tokens"]) == (10, 32)
        assert streamed[0]["message"]["usage"] == {**second, "output_tokens": 0}
        assert streamed[-2]["usage"] == second

    with_client(scenario, words=WORDS, num_blocks=24)


def test_tokens_are_counted_without_an_answer(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        async with on_a_socket(client.app) as own:
            count = await own.messages.count_tokens(model="fake", messages=USER, system=[{"type": "text", "text": "be brief"}])
        assert count.input_tokens == 7
        message = refusal(await client.post("/v1/messages/count_tokens", {"messages": []}), 400, "invalid_request_error")
        assert "messages is empty" in message

    with_client(scenario, words=WORDS)


BLOCKS = [{"type": "text", "text": "hello ", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "there"}]


@pytest.mark.parametrize(
    ("body", "prompt"),
    [
        ({"messages": [{"role": "user", "content": BLOCKS}]}, "user hello there assistant"),
        ({"messages": USER, "system": BLOCKS}, "system hello there user hello there assistant"),
        ({"messages": USER, "system": ""}, "user hello there assistant"),
        ({"messages": [*USER, {"role": "user", "content": "world"}]}, "user hello there world assistant"),
        ({"messages": [*USER, {"role": "assistant", "content": "ab"}, *USER]}, "user hello there assistant ab user hello there assistant"),
        ({"messages": [*USER, {"role": "assistant", "content": "ab bc"}]}, "user hello there assistant ab bc"),
        ({"messages": [*USER, {"role": "system", "content": "be brief"}]}, "user hello there system be brief assistant"),
    ],
)
def test_conversations_become_the_templates(with_client: Callable[..., None], body: dict[str, Any], prompt: str) -> None:
    async def scenario(client: Any) -> None:
        counted = await client.post("/v1/messages/count_tokens", body)
        assert counted.json == {"input_tokens": len(prompt.split())}
        assert (await client.post("/v1/messages", {"max_tokens": 1, **body})).status == 200
        seen = [added.token_ids for plan in client.fake.engine.plans for added in plan.added]
        assert seen == [client.llm.tokenizer.encode(prompt, add_special_tokens=False)]

    with_client(scenario, words=WORDS)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_tokens": "6"}, "max_tokens"),
        ({"messages": []}, "messages is empty"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "role"),
        ({"messages": [{"role": "user"}]}, "content"),
        ({"temperature": -1}, "temperature is -1"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_k": -2}, "top_k is -2"),
        ({"stop_sequences": [""]}, "stop_sequences is ''"),
        ({"stop_sequences": ["x" * 2000]}, "stop_sequences has a string of 2,000 characters"),
        ({"stop_sequences": "a"}, "stop_sequences"),
        ({"cache_salt": ""}, "cache_salt has 0 characters"),
        ({"system": 5}, "system"),
        ({"messages": [{"role": "user", "content": "hello " * 200}]}, "128"),
        ({"tools": [{"name": "a", "input_schema": {}}]}, "tools is"),
        ({"tool_choice": {"type": "any"}}, "tool_choice is"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking is"),
        ({"output_config": {"effort": "low"}}, "output_config is"),
        ({"mcp_servers": [{"url": "u"}]}, "mcp_servers is"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            r"messages[0].content[0] is a block of type 'image'",
        ),
        (
            {"messages": [*USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}]},
            "messages[1].content[0] is a block of",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "'tool_result'"),
        ({"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "a"}]}]}, "'thinking'"),
        ({"system": [{"type": "text"}]}, "system[0].text must be a string"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_is_refused_in_anthropics_envelope(
    with_client: Callable[..., None], more: dict[str, Any], said: str, stream: bool
) -> None:
    async def scenario(client: Any) -> None:
        body = fields(stream=stream, **more)
        if more == {"max_tokens": None}:
            del body["max_tokens"]
        assert said in refusal(await client.post("/v1/messages", body), 400, "invalid_request_error")

    with_client(scenario, words=WORDS)


def test_a_refusal_quotes_only_the_beginning_of_what_came(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        body = fields(messages=[{"role": "x" * 1_000_000, "content": "a"}])
        message = refusal(await client.post("/v1/messages", body), 400, "invalid_request_error")
        assert message.startswith("messages[0].role: invalid enum value 'xxx")
        assert len(message) < 300

    with_client(scenario)


@pytest.mark.parametrize(
    "harmless",
    [
        {"tools": []},
        {"tools": None, "tool_choice": {"type": "auto"}},
        {"tool_choice": {"type": "none"}},
        {"thinking": {"type": "disabled"}},
        {"output_config": {}},
        {"context_management": {"edits": []}},
        {"metadata": {"user_id": "u"}, "service_tier": "auto", "cache_control": {"type": "ephemeral"}},
        {"stop_sequences": []},
        {"stop_sequences": None, "top_k": None, "top_p": None, "stream": None},
        {"no_such_field": 1},
    ],
)
def test_what_changes_nothing_passes(with_client: Callable[..., None], harmless: dict[str, Any]) -> None:
    async def scenario(client: Any) -> None:
        plain = await client.post("/v1/messages", fields())
        answer = await client.post("/v1/messages", fields(**harmless))
        assert answer.status == 200
        assert answer.json["content"] == plain.json["content"]

    with_client(scenario, words=WORDS)


def test_errors_of_every_status_have_their_envelope(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        unknown = await client.post("/v1/messages", fields(model="other"))
        assert "'other' is not served here" in refusal(unknown, 404, "not_found_error")
        assert "not JSON" in refusal(await client.post("/v1/messages", b"{"), 400, "invalid_request_error")
        refusal(await client.post("/v1/messages", b"[" * 1000), 400, "invalid_request_error")
        refusal(await client.post("/v1/messages/count_tokens", b" " * 3000), 413, "request_too_large")
        client.state.is_draining = True
        refusal(await client.post("/v1/messages", fields()), 503, "overloaded_error")
        other_dialect = await client.post("/v1/chat/completions", fields())
        assert other_dialect.error["code"] == "shutting_down"
        client.state.is_draining = False

    with_client(scenario, words=WORDS, flags={"max_request_bytes": 2000, "max_json_depth": 20})


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_it_sits_behind_the_keys(with_client: Callable[..., None], header: str) -> None:
    import anthropic

    async def scenario(client: Any) -> None:
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            refusal(await client.post(path, fields()), 401, "authentication_error")
        key = {"api_key": "secret"} if header == "x-api-key" else {"api_key": None, "auth_token": "secret"}
        async with on_a_socket(client.app, **key) as own:
            assert (await own.messages.create(**given())).content
        async with on_a_socket(client.app, api_key="guess") as own:
            with pytest.raises(anthropic.AuthenticationError, match="a valid API key is needed"):
                await own.messages.create(**given())

    with_client(scenario, words=WORDS, flags={"api_keys": {"one": "secret"}})


def test_its_own_client_understands_refusals(with_client: Callable[..., None]) -> None:
    import anthropic

    async def scenario(client: Any) -> None:
        async with on_a_socket(client.app) as own:
            with pytest.raises(anthropic.BadRequestError) as caught:
                await own.messages.create(**given(temperature=500))
            assert isinstance(caught.value.body, dict)
            assert caught.value.body["error"]["type"] == "invalid_request_error"
            with pytest.raises(anthropic.NotFoundError):
                await own.messages.create(**given(model="other"))

    with_client(scenario, words=WORDS)


class FailingStep:
    """Fails every request in one step, or kills the engine."""

    def __init__(self, step: int, *, fatal: bool) -> None:
        self._left = step
        self._fatal = fatal

    def __call__(self, plan: StepPlan) -> dict[str, str]:
        if plan.num_tokens:
            self._left -= 1
            if not self._left:
                if self._fatal:
                    raise RuntimeError("the device is gone")
                return dict.fromkeys(plan.num_tokens, "NaN in the logits")
        return {}


@pytest.mark.parametrize(("fatal", "status", "kind"), [(False, 500, "api_error"), (True, 503, "overloaded_error")])
@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("stream", [False, True])
def test_what_fails_ends_as_an_error(
    with_client: Callable[..., None], stream: bool, step: int, fatal: bool, status: int, kind: str
) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.post("/v1/messages", fields(stream=stream))
        if not stream or step == 1:
            refusal(answer, status, kind)
            return
        events = frames(answer)
        assert events[0]["type"] == "message_start"
        assert events[-1]["type"] == "error"
        assert events[-1]["error"]["type"] == kind
        assert not any(event["type"] in {"content_block_stop", "message_delta", "message_stop"} for event in events)

    with_client(scenario, words=WORDS, faults=FailingStep(step, fatal=fatal))


def test_a_client_that_hangs_up_leaves_nothing_behind(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        exchange = client.begin("/v1/messages", fields(stream=True, max_tokens=100_000))
        await exchange.first_part()
        await exchange.hang_up()
        await client.assert_idle()

    with_client(scenario, words=WORDS, script=[HELLO] * 4000, num_blocks=400, max_model_len=4096)


def test_the_document_names_the_envelope(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        document = client.app.openapi()
        for path, envelope in (("/v1/messages", "AnthropicErrorResponse"), ("/v1/chat/completions", "ErrorResponse")):
            schema = document["paths"][path]["post"]["responses"]["4XX"]["content"]["application/json"]["schema"]
            assert schema == {"$ref": f"#/components/schemas/{envelope}"}
            assert envelope in document["components"]["schemas"]

    with_client(scenario, words=WORDS)
