"""Stop strings and split characters over HTTP, in one piece and streamed."""

from collections.abc import Callable
from typing import Any

import pytest

ALPHABET = ("ABC", "DEF", "G", "HI", "J", "zz")
TEXT = "😀กあž"
BYTES = tuple(f"<0x{byte:02X}>" for byte in dict.fromkeys(TEXT.encode()))
SCRIPT = [3 + BYTES.index(f"<0x{byte:02X}>") for byte in TEXT.encode()]


async def answer_of(client: Any, *, chat: bool, stream: bool, **fields: Any) -> tuple[str, Any, list[str]]:
    """Text, the choice that ended and the pieces that it came in."""
    answer = await (client.chat if chat else client.complete)("zz", stream=stream, **fields)
    choices = [part["choices"][0] for part in (answer.events if stream else [answer.json])]
    pieces = [(choice.get("delta") or choice.get("message"))["content"] if chat else choice["text"] for choice in choices]
    return "".join(pieces), choices[-1], pieces


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "text", "reason"),
    [
        ({"stop": ["DEFGHIJ"]}, "ABC", "DEFGHIJ"),
        ({"stop": "DEFGHIJ", "include_stop_str_in_output": True}, "ABCDEFGHIJ", "DEFGHIJ"),
        ({"stop": ["E"]}, "ABCD", "E"),
        ({"stop": ["HI", "FG"]}, "ABCDE", "FG"),
        ({"stop": ["DEFGHX"], "max_tokens": 3}, "ABCDEFG", None),
        ({"stop": [], "max_tokens": 2}, "ABCDEF", None),
        ({"stop": ["ABC"], "min_tokens": 2, "max_tokens": 3}, "ABCDEFG", None),
        ({"stop_token_ids": [4]}, "ABC", 4),
        ({"stop_token_ids": [4], "include_stop_str_in_output": True}, "ABCDEF", 4),
    ],
)
def test_stops(
    with_client: Callable[..., None], chat: bool, stream: bool, fields: dict[str, Any], text: str, reason: str | int | None
) -> None:
    async def scenario(client: Any) -> None:
        found, last, _ = await answer_of(client, chat=chat, stream=stream, **fields)
        assert (found, last["finish_reason"], last["stop_reason"]) == (text, "length" if reason is None else "stop", reason)

    with_client(scenario, words=ALPHABET, script=[3, 4, 5, 6, 7, 8])


@pytest.mark.parametrize("stream", [False, True])
def test_characters_come_whole(with_client: Callable[..., None], stream: bool) -> None:
    async def scenario(client: Any) -> None:
        text, _, pieces = await answer_of(client, chat=False, stream=stream, max_tokens=len(SCRIPT))
        assert text == TEXT
        assert not any("\ufffd" in piece for piece in pieces)
        assert len(pieces) == (len(SCRIPT) if stream else 1)
        text, _, _ = await answer_of(client, chat=False, stream=stream, max_tokens=6)
        assert text == "😀\ufffd"

    with_client(scenario, words=BYTES, script=SCRIPT)


def test_tokens_that_are_parts_of_characters_are_spelled_as_bytes(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete("zz", max_tokens=4, logprobs=0)
        logprobs = answer.json["choices"][0]["logprobs"]
        assert logprobs["tokens"] == ["bytes:\\xf0", "bytes:\\x9f", "bytes:\\x98", "bytes:\\x80"]
        assert logprobs["text_offset"] == [0, 0, 0, 0]
        answer = await client.chat("zz", max_tokens=4, logprobs=True)
        content = answer.json["choices"][0]["logprobs"]["content"]
        assert bytes(byte for item in content for byte in item["bytes"]).decode() == "😀"

    with_client(scenario, words=BYTES, script=SCRIPT)


def test_an_echo_may_end_within_a_character(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        for stream in (False, True):
            answer = await client.complete([3, 4], max_tokens=2, echo=True, logprobs=0, stream=stream)
            choices = [part["choices"][0] for part in (answer.events if stream else [answer.json])]
            assert "".join(choice["text"] for choice in choices) == "😀"
            assert [offset for choice in choices for offset in choice["logprobs"]["text_offset"]] == [0, 0, 0, 0]
        answer = await client.complete([3, 4], max_tokens=0, echo=True)
        assert answer.json["choices"][0]["text"] == "\ufffd"

    with_client(scenario, words=BYTES, script=[5, 6])


@pytest.mark.parametrize("fields", [{"stop": ""}, {"stop": ["a", ""]}, {"stop": ["a"] * 65}, {"stop": 5}, {"stop": [1]}])
def test_stops_that_cannot_be(with_client: Callable[..., None], fields: dict[str, Any]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete(**fields)
        assert answer.status == 400
        assert answer.error["param"].startswith("stop")

    with_client(scenario)
