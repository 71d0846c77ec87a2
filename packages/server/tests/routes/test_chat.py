"""What `/v1/chat/completions` answers."""

from collections.abc import Callable
from typing import Any

import pytest

from octavo.testing.model import continuation

WORDS = ("user", "assistant", "system", "hello", "there", "hellothere")
USER, ASSISTANT, SYSTEM, HELLO, THERE, JOINED = range(3, 9)


def prompt_of(answer: Any) -> list[int]:
    assert answer.status == 200, answer
    found: list[int] = answer.json["prompt_token_ids"]
    return found


def test_a_conversation_is_answered_up_to_the_end_of_the_context(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.chat("hello", ignore_eos=True, return_token_ids=True)
        (choice,) = answer.json["choices"]
        assert prompt_of(answer) == [USER, HELLO, ASSISTANT]
        assert choice["token_ids"] == continuation([USER, HELLO, ASSISTANT], 125)
        assert choice["finish_reason"] == "length"
        assert choice["message"]["role"] == "assistant"
        assert answer.json["id"].startswith("chatcmpl-")
        assert answer.json["object"] == "chat.completion"

    with_client(scenario, words=WORDS)


@pytest.mark.parametrize(
    "fields", [{"max_tokens": 3}, {"max_completion_tokens": 3}, {"max_tokens": 9, "max_completion_tokens": 3}, {"n": 2, "max_tokens": 3}]
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_limit_has_two_names(with_client: Callable[..., None], fields: dict[str, Any], stream: bool) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.chat("hello", ignore_eos=True, stream=stream, **fields)
        if not stream:
            assert answer.json["usage"]["completion_tokens"] == 3 * fields.get("n", 1)
            return
        assert len(answer.events) == 3 * fields.get("n", 1)
        assert answer.events[0]["object"] == "chat.completion.chunk"
        for index in range(fields.get("n", 1)):
            choices = [event["choices"][0] for event in answer.events if event["choices"][0]["index"] == index]
            assert [choice["delta"].get("role") for choice in choices] == ["assistant", None, None]
            assert [choice["finish_reason"] for choice in choices] == [None, None, "length"]

    with_client(scenario, words=WORDS)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([{"role": "system", "content": "hello"}, {"role": "user", "content": "there"}], [SYSTEM, HELLO, USER, THERE, ASSISTANT]),
        ([{"role": "developer", "content": "hello"}], [SYSTEM, HELLO, ASSISTANT]),
        ([{"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "there"}]}], [USER, JOINED, ASSISTANT]),
        ([{"role": "user", "content": "hello", "name": "x"}, {"role": "assistant", "content": None}], [USER, HELLO, ASSISTANT, ASSISTANT]),
    ],
)
def test_roles_and_parts(with_client: Callable[..., None], messages: Any, expected: list[int]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1, "return_token_ids": True})
        assert prompt_of(answer) == expected

    with_client(scenario, words=WORDS)


def test_the_answer_may_be_left_unopened_or_continued(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "there"}]
        base = {"messages": messages, "max_tokens": 1, "return_token_ids": True}
        answer = await client.post("/v1/chat/completions", {**base, "add_generation_prompt": False})
        assert prompt_of(answer) == [USER, HELLO, ASSISTANT, THERE]
        answer = await client.post("/v1/chat/completions", {**base, "continue_final_message": True, "echo": True})
        assert prompt_of(answer) == [USER, HELLO, ASSISTANT, THERE]
        assert answer.json["choices"][0]["message"]["content"].startswith("there")
        answer = await client.post("/v1/chat/completions", {**base, "continue_final_message": True, "add_generation_prompt": True})
        assert answer.error["param"] == "continue_final_message"

    with_client(scenario, words=WORDS)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("top", [None, 0, 2])
def test_logprobs_have_one_object_a_token(with_client: Callable[..., None], stream: bool, top: int | None) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.chat("hello", max_tokens=3, ignore_eos=True, logprobs=True, top_logprobs=top, stream=stream)
        parts = answer.events if stream else [answer.json]
        content = [item for part in parts for item in part["choices"][0]["logprobs"]["content"]]
        expected = continuation([USER, HELLO, ASSISTANT], 3)
        assert [item["token"] for item in content] == [f"x{token_id}" for token_id in expected]
        assert [item["logprob"] for item in content] == pytest.approx([-token_id / 1000 for token_id in expected])
        for item in content:
            assert bytes(item["bytes"]).decode() == item["token"]
            assert [other["token"] for other in item["top_logprobs"]] == ["<unk>", "<s>"][: top or 0]
            assert [other["logprob"] for other in item["top_logprobs"]] == pytest.approx([0.0, -0.001][: top or 0])

    with_client(scenario, words=WORDS)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"logprobs": 1}, "logprobs"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
        ({"chat_template_kwargs": {"chat_template": "{{ 1 }}"}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"tokenize": False}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"add_generation_prompt": False}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"continue_final_message": False}}, "chat_template_kwargs"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"content": "hello"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": "hello " * 130}]}, "messages"),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
    ],
)
def test_what_a_chat_may_not_ask(with_client: Callable[..., None], fields: dict[str, Any], param: str) -> None:
    async def scenario(client: Any) -> None:
        for stream in (False, True):
            answer = await client.chat("hello", stream=stream, **fields)
            assert (answer.status, answer.error["param"]) == (400, param), answer

    with_client(scenario, words=WORDS)


def test_messages_are_needed(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.post("/v1/chat/completions", {})
        assert (answer.status, answer.error["param"]) == (400, "messages")

    with_client(scenario)


def test_a_template_of_the_request_is_taken_where_the_server_trusts_it(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        template = "{{ messages[0].content }} {{ mood }}"
        answer = await client.chat(
            "hello", chat_template=template, chat_template_kwargs={"mood": "there"}, max_tokens=1, return_token_ids=True
        )
        assert prompt_of(answer) == [HELLO, THERE]
        answer = await client.chat("hello", chat_template="{% for %}")
        assert (answer.status, answer.error["param"]) == (400, "messages")

    with_client(scenario, words=WORDS, flags={"trust_request_chat_template": True})


def test_other_fields_speak_to_the_template(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        for fields, expected in (
            ({"chat_template_kwargs": {"reasoning_effort": "hello"}}, [HELLO]),
            ({"reasoning_effort": "low"}, [0]),
            ({"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "there"}}, [THERE]),
            ({"reasoning_effort": "none"}, [0, HELLO]),
        ):
            answer = await client.chat("hello", max_tokens=1, return_token_ids=True, **fields)
            assert prompt_of(answer) == expected

    template = "{{ reasoning_effort }}{% if enable_thinking is defined and not enable_thinking %} hello{% endif %}"
    with_client(scenario, words=WORDS, chat_template=template)


def test_a_model_without_a_template_completes_but_does_not_chat(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.chat("hello")
        assert (answer.status, answer.error["param"]) == (400, "messages")
        assert "--chat-template" in answer.error["message"]
        assert (await client.complete("hello")).status == 200

    with_client(scenario, chat_template=None)


ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
GROWING = "{{ messages[0].content * (10 ** 12) }}"


@pytest.mark.parametrize("of_request", [False, True])
def test_a_template_that_does_not_end_is_stopped_and_holds_up_nobody(with_client: Callable[..., None], of_request: bool) -> None:
    async def scenario(client: Any) -> None:
        assert client.llm.chat_template.problem() is None
        body = {"messages": [{"role": "user", "content": "hello"}]} | ({"chat_template": ENDLESS} if of_request else {})
        slow = client.begin("/v1/chat/completions", body)
        assert (await client.complete("hello", max_tokens=2)).status == 200
        assert not slow.task.done(), "the other request had to wait"
        answer = await slow.finish()
        assert (answer.status, answer.error["param"]) == (400, "messages")
        assert "it takes longer than 1 s" in answer.error["message"]

    source = "{{ 1 }}" if of_request else ENDLESS
    with_client(scenario, words=WORDS, chat_template=source, flags={"trust_request_chat_template": True})


def test_a_template_that_grows_is_stopped(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        for path in ("/v1/chat/completions", "/v1/messages", "/tokenize", "/v1/messages/count_tokens"):
            body = {"messages": [{"role": "user", "content": "hello"}]} | ({"max_tokens": 1} if path == "/v1/messages" else {})
            answer = await client.post(path, body)
            assert answer.status == 400
            assert b"is stopped on these messages" in answer.body

    with_client(scenario, words=WORDS, chat_template=GROWING)


def test_values_of_a_request_do_not_make_a_template_grow(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        for width in (10**12, 10**300):
            answer = await client.chat("hello", chat_template_kwargs={"width": width})
            assert (answer.status, answer.error["param"]) == (400, "messages")
        answer = await client.chat("hello", chat_template_kwargs={"render meter": 1, "self": 2, "width": 1}, max_tokens=1)
        assert answer.status == 200

    with_client(scenario, words=WORDS, chat_template="{{ ' ' * width }}{{ messages[0].content }}")
