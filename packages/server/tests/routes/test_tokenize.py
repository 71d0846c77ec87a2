"""`/tokenize` and `/detokenize`."""

from collections.abc import Callable
from typing import Any

import pytest

WORDS = ("user", "assistant", "hello", "there")


def test_a_text_is_split_and_joined(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.post("/tokenize", {"prompt": "hello there"})
        assert answer.json == {"count": 2, "max_model_len": 128, "tokens": [5, 6], "token_strs": None}
        answer = await client.post(
            "/tokenize", {"prompt": "hello", "model": "fake", "return_token_strs": True, "add_special_tokens": False}
        )
        assert (answer.json["tokens"], answer.json["token_strs"]) == ([5], ["hello"])
        assert (await client.post("/tokenize", {"prompt": ""})).json["count"] == 0
        assert (await client.post("/tokenize", {"prompt": "hello " * 5000})).json["count"] == 5000
        answer = await client.post("/detokenize", {"tokens": [5, 6, 2]})
        assert answer.json == {"prompt": "hellothere</s>"}

    with_client(scenario, words=WORDS)


def test_a_conversation_is_split_as_a_chat_renders_it(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "there"}]
        for fields, expected in (
            ({}, [3, 5, 4, 6, 4]),
            ({"add_generation_prompt": False}, [3, 5, 4, 6]),
            ({"continue_final_message": True}, [3, 5, 4, 6]),
            ({"tools": [], "chat_template_kwargs": {"unused": 1}}, [3, 5, 4, 6, 4]),
        ):
            answer = await client.post("/tokenize", {"messages": messages, **fields})
            assert answer.json["tokens"] == expected

    with_client(scenario, words=WORDS)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": ["hello"]}, "prompt"),
        ("/tokenize", {"prompt": "a", "model": "other"}, "model"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"messages": [{"role": "user"}], "chat_template": "x"}, "chat_template"),
        ("/tokenize", {"messages": [{"role": "user"}], "chat_template_kwargs": {"tools": 1}}, "chat_template_kwargs"),
        ("/tokenize", {"messages": [{"role": "user"}], "tools": [{}]}, "tools"),
        ("/tokenize", b"[]", None),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [1000]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [2**70]}, "tokens"),
        ("/detokenize", {"tokens": [True]}, "tokens[0]"),
        ("/detokenize", {"tokens": [1], "model": "other"}, "model"),
    ],
)
def test_what_cannot_be_split_or_joined(with_client: Callable[..., None], path: str, body: Any, param: str | None) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.post(path, body)
        assert (answer.status, answer.error["param"]) == (404 if param == "model" else 400, param)

    with_client(scenario, words=WORDS)
